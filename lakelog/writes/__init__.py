"""Writing, as the SDK and Spark do it alike: rows taken in, what they replace, and the changelog of a commit."""
