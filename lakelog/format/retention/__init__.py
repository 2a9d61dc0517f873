"""What expires, what is retained, and which files may be deleted."""
