"""A real Kafka broker in a folder."""
