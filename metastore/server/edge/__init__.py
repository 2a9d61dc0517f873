"""What one request, and all requests of a caller, may take: counted and bounded before a servicer sees them."""
