"""What each RPC needs: a role, or grants on what its request names."""
