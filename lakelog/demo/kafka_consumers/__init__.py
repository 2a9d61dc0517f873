"""Programs that follow a table's log with a Kafka client alone. None imports lakelog; each runs as a file."""
