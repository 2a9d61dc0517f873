"""Consumers and logs of all tables."""
