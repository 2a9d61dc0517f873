"""The checks of `lakelog doctor`: each finds out one thing, in a time of its own, and knows the remedy."""
