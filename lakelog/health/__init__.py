"""What is wrong now, from a few cheap requests: for `lakelog status`, `lakelog doctor` and the console."""
