"""Following tables: subscriptions that read by themselves or through the reader service, and their consumers."""
