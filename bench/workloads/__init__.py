"""One module a workload: `TITLE`, and `run(bench)` that yields figures."""
