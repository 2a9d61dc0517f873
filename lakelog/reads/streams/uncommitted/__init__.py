"""Subscriptions that show rows before their commit (`eventual`)."""
