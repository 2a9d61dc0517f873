"""Runs of a bucket side by side, and deletion vectors."""
