"""lakelog: a streaming lakehouse of plain Parquet tables, one commit gate and exactly-once change logs."""
