"""The state of a table's external log."""
