"""STARTUP of BENCH."""

from __future__ import annotations

from bench import startup

TITLE = "from the start of a process to its first result"
PARTS = {"command": startup.measure_command, "pipeline": startup.measure_pipeline, "up": startup.measure_up}
