"""Writing, shared by the SDK and Spark: input rows, what they replace, and the changelog of a commit."""
