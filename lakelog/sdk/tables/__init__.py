"""The table classes of the SDK."""
