"""Column types, schemas and row kinds."""
