"""The metastore service: owner of every snapshot and every commit."""
