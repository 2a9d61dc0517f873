"""How a request is followed through the services: its id, and the spans of its trace."""
