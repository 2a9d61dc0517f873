"""What is wrong with services and pipelines, as they report. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lakelog.format.jobs.presence import Liveness, Service, find_successors
from lakelog.format.jobs.work import Pipeline
from lakelog.health.problem import Problem, Severity, bound, cut, say_remedy

BEHIND_RECORDS: Final = 100_000
"""A pipeline with so many records left in its source is behind. The time of the oldest is not known."""

_SILENT_MS: Final = 60_000
"""A running pipeline reports every few seconds."""


def is_abandoned(pipeline: Pipeline) -> bool:
    """Whether a pipeline that reported itself as running has no writer: that of a running one holds its lease."""
    return pipeline.state in ("running", "starting") and not pipeline.holder


def find_in_services(services: Sequence[Service], now_ms: int) -> list[Problem]:
    """Services that are gone, that are silent, and that were replaced; of each the longest silence first."""
    successors = find_successors(services, now_ms)
    by_silence = sorted(services, key=lambda each: -each.silent_ms)
    missed = [each for each in by_silence if each.instance_id not in successors]
    gone = [_of_service(each, now_ms) for each in missed if each.liveness is Liveness.GONE]
    silent = [_of_service(each, now_ms) for each in missed if each.liveness is Liveness.SILENT]
    replaced = [
        _of_replaced(each, successors[each.instance_id], now_ms)
        for each in by_silence
        if each.instance_id in successors
    ]
    return [problem for found in (gone, silent, replaced) for problem in bound(found, remedy=say_remedy("status"))]


def _of_replaced(service: Service, successor: Service, now_ms: int) -> Problem:
    who = f"{service.kind} {service.pid} on {service.host}"
    summary = f"The {who} ended without a word, and {successor.kind} {successor.pid} was started in its place."
    remedy = say_remedy("doctor", "--only", "services")
    return Problem(Severity.WARNING, "service", who, now_ms - service.silent_ms, summary, remedy)


def _of_service(service: Service, now_ms: int) -> Problem:
    work = f" Its last work: {', '.join(service.work)}." if service.work else ""
    who = f"{service.kind} {service.pid} on {service.host}"
    if service.liveness is Liveness.SILENT:
        summary = f"The {who} has missed several reports: it is frozen, overloaded or cut off.{work}"
        severity = Severity.WARNING
    else:
        summary = f"The {who} does not report any more: it was killed, or cannot reach the metastore.{work}"
        severity = Severity.FAILED
    remedy = say_remedy("doctor", "--only", "services")
    return Problem(severity, "service", who, now_ms - service.silent_ms, summary, remedy)


def find_in_pipelines(pipelines: Sequence[Pipeline], now_ms: int) -> list[Problem]:
    """Pipelines that have failed or were abandoned, then those that are silent or far behind."""
    found = [problem for pipeline in pipelines for problem in _of_pipeline(pipeline, now_ms)]
    listed = []
    for severity in Severity:
        same = [each for each in found if each.severity is severity]
        listed += bound(sorted(same, key=lambda each: each.since_ms or 0), remedy=say_remedy("pipelines", "list"))
    return listed


def _of_pipeline(pipeline: Pipeline, now_ms: int) -> Iterator[Problem]:
    name = pipeline.name

    def make(severity: Severity, summary: str) -> Problem:
        remedy = say_remedy("pipelines", "list")
        return Problem(severity, "pipeline", name, pipeline.reported_at_ms, summary, remedy, pipeline.table)

    if pipeline.state == "failed":
        yield make(Severity.FAILED, f"Pipeline {name} has failed: {cut(pipeline.last_error or 'it does not say why')}")
    elif is_abandoned(pipeline):
        yield make(Severity.FAILED, f"Pipeline {name} has no writer any more: start the writer service again.")
    elif pipeline.state == "running" and now_ms - pipeline.reported_at_ms > _SILENT_MS:
        yield make(Severity.WARNING, f"Pipeline {name} has not reported for more than a minute.")
    elif pipeline.state == "running" and (pipeline.lag or 0) >= BEHIND_RECORDS:
        yield make(Severity.WARNING, f"Pipeline {name} is {pipeline.lag:,} records behind its source.")
    elif pipeline.state == "running" and pipeline.last_error:
        yield make(Severity.WARNING, f"Pipeline {name} tries again after an error: {cut(pipeline.last_error)}")
