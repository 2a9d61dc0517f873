"""The commit gate: attempts, groups of commits, guards, and what a commit changes."""
