"""Rewriting files: the work of compactions."""
