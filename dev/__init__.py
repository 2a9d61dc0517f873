"""What developing lakelog needs and using it does not: the checks, the generators of stubs and of the lock file."""
