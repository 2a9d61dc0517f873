"""Streams of a table's changes for `readStream.format("lakelog")`, and changes for batch reads."""
