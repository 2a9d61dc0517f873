"""Parquet files: read, written, cut into row groups."""
