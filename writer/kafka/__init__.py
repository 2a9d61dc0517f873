"""The source `kafka`: which records each batch takes, and how they become rows."""
