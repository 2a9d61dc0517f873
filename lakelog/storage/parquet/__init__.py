"""Parquet files: reading, writing, row groups."""
