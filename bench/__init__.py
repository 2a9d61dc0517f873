"""Benchmarks: ratios of ours and a reference, measured in turn in one run, each answer checked."""
