"""The jobs that rewrite files."""
