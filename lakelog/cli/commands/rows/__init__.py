"""The commands that read, write and query rows."""
