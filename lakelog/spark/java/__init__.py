"""What Java does for streams of tables in the driver program, and the Python that it calls."""
