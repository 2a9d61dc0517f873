"""SCALE: what 1, 2 and 4 replicas of each service do, and what a table, a commit and a file cost."""
