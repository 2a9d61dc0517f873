"""The compactor: does the jobs that commits make due, leased from the metastore."""
