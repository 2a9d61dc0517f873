"""Real components on one machine, without root, containers or separate downloads.

`lakelog up`, the demo and tests start them: Postgres and Java from Python wheels, our services as child processes, with
their ports and logs. Only `lakelog.cli`, `lakelog.testing` and the demo may import this package; its import needs only
the standard library.
"""
