"""Reads the page headers of a Parquet file, and decides how many of its rows are decoded at once."""
