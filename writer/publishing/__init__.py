"""The publisher: sends committed changes to the logs of tables, each snapshot once, after its commit."""
