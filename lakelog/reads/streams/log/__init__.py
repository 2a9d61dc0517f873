"""Subscriptions that read a table's external log."""
