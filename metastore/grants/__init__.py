"""Grants of callers on databases and tables: granted, listed, cached, and checked."""
