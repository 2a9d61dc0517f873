"""`format(\"lakelog\")`: Spark's Python data source."""
