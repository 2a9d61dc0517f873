"""System tables: what lakelog knows of tables, files, jobs and changes, for the SDK, SQL and Spark alike."""
