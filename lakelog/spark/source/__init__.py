"""The Python data source of Spark, `lakelog` as a format."""
