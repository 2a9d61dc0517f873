"""Short-lived keys of the object store, as far as their caller's right reaches: policy, token service, use case."""
