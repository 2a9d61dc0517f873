"""Ways to read and write lakelog's Parquet files through Spark, measured side by side."""
