"""Keeps things private to a process: the files that it makes, and the secrets that it knows."""
