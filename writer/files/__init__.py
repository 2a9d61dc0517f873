"""The source `files`: which files there are, and which of them each batch takes."""
