"""What the commit gate reads and writes in Postgres."""
