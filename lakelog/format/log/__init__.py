"""What is known of a table's external log."""
