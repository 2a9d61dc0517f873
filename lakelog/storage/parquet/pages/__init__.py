"""What the pages of a Parquet file hold, and how many rows of it are decoded at once."""
