"""Files of earlier schemas in Spark: which of them its own reader shows rightly, and what reads the others."""
