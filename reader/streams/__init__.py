"""Streams from tables to sinks, on Spark Structured Streaming."""
