"""Databases, tables, and the pages of one table."""
