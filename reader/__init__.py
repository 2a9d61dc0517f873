"""The reader service: subscriptions for clients without access to the files, and streams from tables to sinks."""
