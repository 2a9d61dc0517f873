"""Jobs, and the sums that planners make jobs of, in memory."""
