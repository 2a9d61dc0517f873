"""What a user of the SDK works with: catalogs, tables, transactions."""
