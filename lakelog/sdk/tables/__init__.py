"""A table as the SDK hands it out."""
