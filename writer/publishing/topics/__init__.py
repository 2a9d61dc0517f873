"""The topics that a publisher writes to, and how publishers share them."""
