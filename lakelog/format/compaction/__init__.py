"""Planning of compaction, pure: what is rewritten, moved or left, as data with reasons (semantics 6)."""
