"""One servicer for each service of the API: messages in, use cases, messages out."""
