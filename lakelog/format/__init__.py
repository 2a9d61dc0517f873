"""The table format, pure: values, rules and vectorised functions. Nothing in this package does I/O."""
