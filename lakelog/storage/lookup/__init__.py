"""Looking up old rows by key, and the changelog that they give."""
