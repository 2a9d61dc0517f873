"""The external log of a table."""
