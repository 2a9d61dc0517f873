"""What services have in common: arguments, leases and what runs under them, endings, callers, TLS, logs, metrics."""
