"""The input of a publisher: pushed snapshots, and the rows of their logs."""
