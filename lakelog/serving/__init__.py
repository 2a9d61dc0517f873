"""What services have in common: leases, who may call, TLS, logs, metrics over HTTP, files in YAML."""
