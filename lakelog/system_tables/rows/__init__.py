"""System tables that show rows of the table itself, or its changes."""
