"""Reading changes out of a table's external log."""
