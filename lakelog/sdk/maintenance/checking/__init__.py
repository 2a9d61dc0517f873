"""Checks of a table: its files and its log against its history, and their repair."""
