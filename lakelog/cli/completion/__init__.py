"""Completion in shells: what can follow what is typed, also the names that a metastore has."""
