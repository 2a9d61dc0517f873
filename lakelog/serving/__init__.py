"""What services have in common: arguments, leases, leased streams, exit codes, callers, TLS, logs, metrics."""
