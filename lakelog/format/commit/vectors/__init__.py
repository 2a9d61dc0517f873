"""Changes whose groups name deletion vectors: which of them hold, and what they enter. Pure."""
