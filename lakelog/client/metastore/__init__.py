"""The metastore as its clients see it: one protocol for each service of the API."""
