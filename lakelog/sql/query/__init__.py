"""Queries, and what they can read besides tables: files, system tables, information_schema."""
