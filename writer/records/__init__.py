"""From the bytes of a file to rows of a table, and records that do not fit; `lakelog/records/` reads text formats."""
