"""The `lakelog` command, for people and scripts. Each noun has a file; `app.py` puts them together."""
