"""Leased streams in Spark: what pipelines and streams to sinks share."""
