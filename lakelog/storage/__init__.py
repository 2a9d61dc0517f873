"""Files: the object store, Parquet reading and writing, the rows of a bucket that newer ones supersede."""
