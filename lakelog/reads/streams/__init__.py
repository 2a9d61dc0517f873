"""Following tables: subscriptions that read directly or through the reader service, and their consumers."""
