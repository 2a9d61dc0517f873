"""Snapshots: listed, found by number, tag or time, watched, and read by named consumers."""
