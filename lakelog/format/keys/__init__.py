"""Keys: their order, their bytes, their buckets."""
