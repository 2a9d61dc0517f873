"""The gRPC server: access, errors, logs, metrics, health and drain around the use cases."""
