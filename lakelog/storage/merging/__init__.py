"""Aligned runs of a bucket, and deletion vectors."""
