"""Batch reads and writes of DataFrames."""
