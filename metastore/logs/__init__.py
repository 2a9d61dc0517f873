"""External logs of tables: the life of their topics, and how far they are published."""
