"""How the SDK and the services talk to the metastore."""
