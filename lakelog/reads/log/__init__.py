"""Reading changes from a table's external log."""
