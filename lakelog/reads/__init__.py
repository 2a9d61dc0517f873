"""Reading, as the SDK and Spark do it alike: which files, which changes, and the streams of them."""
