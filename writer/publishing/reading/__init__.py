"""What a publisher reads: pushed snapshots, and the rows of their logs."""
