"""Reading, shared by the SDK and Spark: which files, which changes, and streams of them."""
