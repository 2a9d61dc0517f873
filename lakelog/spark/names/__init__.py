"""Tables by their names in Spark: statements, views, tables from the columns of a DataFrame."""
