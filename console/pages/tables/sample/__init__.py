"""Sample rows of a table, kept while it does not change."""
