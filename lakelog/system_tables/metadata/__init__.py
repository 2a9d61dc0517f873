"""System tables that show what the metastore knows of a table or of the catalog."""
