"""The fault lab of the log: real writers, publishers, metastore, Postgres and broker, killed and cut off."""
