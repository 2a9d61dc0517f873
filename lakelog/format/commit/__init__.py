"""The rules of the commit gate."""
