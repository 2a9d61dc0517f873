"""The object store: local folders, S3, memory. `stores.py` chooses one by the scheme of a location."""
