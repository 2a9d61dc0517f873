"""Changes of rows by expressions and by comparison with other rows: update and merge."""
