"""The dashboards for Grafana: what each panel shows, and their JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_WIDTH: Final = 8
_HEIGHT: Final = 8
_COLUMNS: Final = 3
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Panel:
    """A plot over time.

    Args:
        title: Its title.
        unit: Grafana's name of the unit: `s`, `bytes`, `ops`, `short`, `percentunit`.
        queries: Expressions of PromQL by their legends.
        description: A sentence or two; empty: the title says all.
    """

    title: str
    unit: str
    queries: dict[str, str]
    description: str = ""


@dataclass(frozen=True)
class Section:
    """A row of panels under a title."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    """A page of Grafana.

    Args:
        uid: Its id, also its file's name.
        title: Its title.
        sections: What it shows.
    """

    uid: str
    title: str
    sections: tuple[Section, ...]


def quantiles(metric: str, by: str = "") -> dict[str, str]:
    """The median and the 99th percentile of a histogram, by a label. Pure."""
    labels, legend = (f"le, {by}", f"{{{{{by}}}}} ") if by else ("le", "")
    return {
        f"{legend}{name}": f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket[$__rate_interval])))"
        for name, share in (("median", 0.5), ("p99", 0.99))
    }


def to_json(dashboard: Dashboard) -> dict[str, Any]:
    """A dashboard as Grafana reads it. Pure."""
    return {
        "title": dashboard.title,
        "uid": dashboard.uid,
        "schemaVersion": 41,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "tags": ["lakelog"],
        "timezone": "browser",
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}]
        },
        "panels": _place(dashboard.sections),
    }


def _place(sections: Sequence[Section]) -> list[dict[str, Any]]:
    placed: list[dict[str, Any]] = []
    y = 0
    for section in sections:
        grid = {"h": 1, "w": _WIDTH * _COLUMNS, "x": 0, "y": y}
        placed.append({"id": len(placed) + 1, "type": "row", "title": section.title, "gridPos": grid, "panels": []})
        y += 1
        for number, panel in enumerate(section.panels):
            line, column = divmod(number, _COLUMNS)
            grid = {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": y + line * _HEIGHT}
            placed.append({"id": len(placed) + 1, "gridPos": grid} | _to_panel(panel))
        y += -(-len(section.panels) // _COLUMNS) * _HEIGHT
    return placed


def _to_panel(panel: Panel) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend}
            for number, (legend, expression) in enumerate(panel.queries.items())
        ],
    }
