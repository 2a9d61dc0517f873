"""The table format: pure, vectorised rules over Arrow columns; nothing in here does I/O."""
