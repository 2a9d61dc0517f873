"""The snapshots and schemas that a table had."""
