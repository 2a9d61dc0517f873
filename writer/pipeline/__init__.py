"""The file that describes a pipeline, read and checked."""
