"""Maintenance of tables: requested compactions, expiry, tags, orphan files, dropped tables."""
