"""What a support bundle holds: each part is found by itself, masked, and listed in a manifest."""
