"""Jobs, leases and pipelines, and the planners that make jobs due by the rules of `lakelog/format/compaction/`."""
