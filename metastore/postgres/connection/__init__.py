"""Connections, sessions and failures of Postgres."""
