"""Streams out of a table for `readStream.format("lakelog")`, and its changes for batch reads."""
