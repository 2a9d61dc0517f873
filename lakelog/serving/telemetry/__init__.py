"""What services measure and report about themselves."""
