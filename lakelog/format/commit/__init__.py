"""The rules of the commit gate, pure: what is checked, what conflicts, and what a commit changes."""
