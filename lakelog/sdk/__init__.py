"""What a user of the SDK holds: catalogs, scans, transactions."""
