"""Spark's own processes: Java, sessions, Python workers."""
