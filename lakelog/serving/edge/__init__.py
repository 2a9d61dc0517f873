"""The edge of a service: bounds of one request, and the share of the service that one caller can have."""
