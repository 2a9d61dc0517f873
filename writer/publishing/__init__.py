"""The publisher: brings what was committed to the logs of tables, each snapshot once, behind its commit."""
