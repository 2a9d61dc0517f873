"""The contract of a store: what use cases read and write in one transaction, and what requests may look like."""
