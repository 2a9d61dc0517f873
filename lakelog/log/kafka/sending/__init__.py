"""Sending records to Kafka, in transactions or at once."""
