"""Lookups of old rows by key, and the changelog that results."""
