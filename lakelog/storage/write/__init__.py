"""The rows of a write: normalised, routed to buckets, written as sorted runs."""
