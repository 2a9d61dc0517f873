"""One module a workload: `TITLE`, and `run(bench)` that yields figures, or `PARTS` of such by name."""
