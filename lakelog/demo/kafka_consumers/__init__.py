"""Programs that follow a table's log with a Kafka client alone: none of them imports lakelog. They run as files."""
