"""`lakelog table` and the commands about tables' files."""
