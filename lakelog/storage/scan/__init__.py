"""Reads many live files as one stream of rows."""
