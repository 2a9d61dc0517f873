"""The options themselves, by what they are given to."""
