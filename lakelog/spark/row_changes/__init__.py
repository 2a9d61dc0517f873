"""Updates, deletes and merges by Spark."""
