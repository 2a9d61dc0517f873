"""Health: whether lakelog works, and what to do if it does not."""
