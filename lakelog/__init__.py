"""lakelog: a streaming lakehouse. Tables as plain Parquet files, one commit gate, exactly-once change logs."""
