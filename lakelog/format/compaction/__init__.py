"""Planning of compaction, pure: what is rewritten, moved or left, as data with reasons (SEMANTICS.md 6)."""
