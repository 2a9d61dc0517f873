"""What a pipeline is told to do: its file, read and checked."""
