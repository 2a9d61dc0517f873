"""The compactor: does the jobs that commits leave to be done, leased from the metastore."""
