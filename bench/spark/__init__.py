"""The Spark halves of W1, W2 and W3, through a metastore process on a real Postgres."""
