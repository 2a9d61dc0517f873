"""Real components on one machine, without root, container or download page.

What `lakelog up`, the demo and tests start: Postgres and Java from Python wheels, our services as child processes,
ports, logs. Only `lakelog.cli`, `lakelog.testing` and the demo may import this room; on import it needs nothing but the
standard library.
"""
