"""What a user of the SDK holds: catalogs, tables, transactions."""
