"""The snapshots of a table and the versions of its schema: listed, one by one, and compared."""
