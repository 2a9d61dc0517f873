"""The metastore as its clients see it: one protocol a service of the API."""
