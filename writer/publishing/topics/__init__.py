"""The topics that a publisher writes to, and which publishers share them."""
