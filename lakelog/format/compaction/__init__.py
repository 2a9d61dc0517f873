"""Planning of compaction, pure: when it is due, what is rewritten, moved or left, with reasons (semantics 6)."""
