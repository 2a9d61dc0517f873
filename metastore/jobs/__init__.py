"""Jobs, leases and pipelines, and the planners that make jobs due."""
