"""Merges of rows of one key, and the changelog between two states."""
