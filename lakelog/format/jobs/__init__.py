"""Jobs, leases and pipelines as values."""
