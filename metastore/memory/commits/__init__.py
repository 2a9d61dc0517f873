"""What the commit gate reads and writes, in memory."""
