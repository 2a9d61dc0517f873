"""The edge of a service: what one request may hold, and what one caller may take of the service."""
