"""From the bytes of a file to rows of a table, and what becomes of records that do not fit."""
