"""What callers that may can do here: each action asks first, and shows the command line that does the same."""
