"""The jobs that expire and delete."""
