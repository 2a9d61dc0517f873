"""The external log: a table's changes as records of a topic, its transports, and the codecs of keys and values."""
