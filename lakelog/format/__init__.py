"""The table format, pure: values, rules and vectorised functions. Nothing in this room does I/O."""
