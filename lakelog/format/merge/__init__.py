"""Merge engines, pure: which row of a key stays, and the changelog between two states."""
