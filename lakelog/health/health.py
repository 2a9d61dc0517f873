"""Loads what is known about the health of lakelog, and finds what is wrong: three cheap requests in all."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from lakelog.errors import LakelogError, PermissionDenied
from lakelog.format.jobs.overview import Overview
from lakelog.format.jobs.presence import Service
from lakelog.format.jobs.work import Pipeline
from lakelog.health.problem import Problem, Severity, cut, say_remedy
from lakelog.health.processes import find_in_pipelines, find_in_services
from lakelog.health.waiting import find_in_overview
from lakelog.sdk.catalog import Catalog

SLOW_MS: Final = 1_000.0
"""A metastore answers an overview of 10,000 tables in some 20 ms."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Health:
    """What is known, as of one moment.

    Args:
        overview: Sums over all tables, and waiting work; None: the metastore did not answer.
        services: The services that report; None: as above, or the caller may not see them.
        pipelines: The pipelines whose tables the caller may see; None: the metastore did not answer.
        latency_ms: How long the overview took; None: there was none.
        problems: What is wrong: first what has failed, then warnings; within these by kind, the worst first.
    """

    overview: Overview | None
    services: tuple[Service, ...] | None
    pipelines: tuple[Pipeline, ...] | None
    latency_ms: float | None
    problems: tuple[Problem, ...]


def find_problems(catalog: Catalog) -> list[Problem]:
    """What is wrong now; at most 20 problems of a kind, and then one that says how many more there are.

    Nothing is raised: a metastore that is away is a problem, too. Blocks for as long as a request may take.
    """
    return list(load_health(catalog).problems)


def load_health(catalog: Catalog) -> Health:
    """What is known now. Nothing is raised, as in `find_problems`."""
    try:
        return examine(catalog)
    except LakelogError as error:
        return Health(None, None, None, None, (_describe_failure(error),))


def examine(catalog: Catalog) -> Health:
    """As `load_health`, but a metastore that does not answer is an error.

    Raises:
        PermissionDenied: The metastore does not know the caller.
        Unavailable: It does not answer.
    """
    metastore = catalog.metastore
    began_s = time.monotonic()
    overview = catalog.overview()
    latency_ms = (time.monotonic() - began_s) * 1000
    services = _if_allowed(metastore.list_services)
    pipelines = tuple(metastore.list_pipelines())
    now_ms = overview.now_ms
    problems = [
        *_find_slowness(latency_ms),
        *find_in_services(services or (), now_ms),
        *find_in_pipelines(pipelines, now_ms),
        *find_in_overview(overview, services),
    ]
    # The sort is stable: what is wrong with one thing stays together, and what was left out comes after it.
    problems.sort(key=lambda each: each.severity is not Severity.FAILED)
    return Health(overview, services, pipelines, latency_ms, tuple(problems))


def _if_allowed(load: Callable[[], list[_T]]) -> tuple[_T, ...] | None:
    try:
        return tuple(load())
    except PermissionDenied:
        # A caller with grants only.
        return None


def _describe_failure(error: LakelogError) -> Problem:
    # Not now(): the metastore's clock cannot be read.
    summary = f"The metastore does not answer as it should: {cut(error.message)}"
    return Problem(Severity.FAILED, "metastore", "", None, summary, say_remedy("doctor"))


def _find_slowness(latency_ms: float) -> list[Problem]:
    if latency_ms < SLOW_MS:
        return []
    summary = f"The metastore took {latency_ms / 1000:.1f} s for an overview: it or its database is overloaded."
    return [Problem(Severity.WARNING, "metastore", "", None, summary, say_remedy("doctor", "--only", "metastore"))]
