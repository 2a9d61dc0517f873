"""Subscriptions that are served to clients."""
