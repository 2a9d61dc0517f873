"""What runs on Spark's executors."""
