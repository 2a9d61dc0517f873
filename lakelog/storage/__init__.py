"""Files: the object store, Parquet reading and writing, and the superseded rows of a bucket."""
