"""Channels, targets, retries and statuses of gRPC."""
