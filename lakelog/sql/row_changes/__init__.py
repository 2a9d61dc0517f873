"""DELETE, UPDATE, MERGE and TRUNCATE: how they are read, and how they run."""
