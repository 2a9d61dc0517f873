"""What a process keeps to itself: the files that it makes, and the secrets that it knows."""
