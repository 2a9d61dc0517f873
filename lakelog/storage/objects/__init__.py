"""The object store: local folders, S3, memory."""
