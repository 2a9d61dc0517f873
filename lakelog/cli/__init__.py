"""The `lakelog` command: what people and scripts type. Each noun has a file; `app.py` puts them together."""
