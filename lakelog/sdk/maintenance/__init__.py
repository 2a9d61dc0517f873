"""Looking after tables: compactions asked for, expiry, tags, files that belong to nobody, dropped tables."""
