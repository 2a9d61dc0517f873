"""Expiry of snapshots, and what keeps them."""
