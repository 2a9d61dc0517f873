"""Databases and tables: names, schemas, options, drops, and the files below tables' locations."""
