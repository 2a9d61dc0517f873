"""STEADY: the same work for an hour, and whether anything grows meanwhile."""
