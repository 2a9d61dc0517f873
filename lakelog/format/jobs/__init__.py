"""Jobs and their kinds, leases, pipelines and the presence of services, as values."""
