"""Filters: the conditions of scans, parsed, typed, evaluated and used for pruning."""
