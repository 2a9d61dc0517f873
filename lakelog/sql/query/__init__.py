"""Queries, and the tables that are not tables: files, system tables, information_schema."""
