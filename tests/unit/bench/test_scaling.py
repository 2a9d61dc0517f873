"""What the curves and the sizing are computed with."""

from __future__ import annotations

import pytest

from bench.kube.recovery import find_next
from bench.measure import WrongAnswerError
from bench.scaling.meter import Used, show
from dev.scaling_figures import Figures, to_name
from dev.sizing_page import MIB, compute_needs, cores_for, render_page

COMMIT = "a commit of one file, without the file"


def test_the_figures_of_a_point_have_the_names_that_the_pages_look_for() -> None:
    used = Used(2.0, {"reader": 1.0, "Postgres": 0.5, "driver": 1.5})
    shown = {figure.name: (figure.ours, figure.unit) for figure in show("reader", 2, "rows", 10.0, used)}
    assert shown == {
        to_name("reader", 2, "rate"): (5.0, "rows/s"),
        to_name("reader", 2, "CPU of the service"): (100.0, "CPU ms a row"),
        to_name("reader", 2, "CPU of all else"): (200.0, "CPU ms a row"),
        to_name("reader", 2, "busy cores"): (1.5, "cores"),
    }
    assert to_name("reader", 1, "rate") == "reader, 1 replica: rate"


def test_needs_follow_from_costs() -> None:
    costs = {
        "a table: Postgres": 0.5 * MIB,
        "a file of a large commit: Postgres": 1000.0,
        f"{COMMIT}: Postgres": 2000.0,
        "a commit: Postgres, for ever": 500.0,
        f"{COMMIT}: CPU of Postgres": 0.5,
        f"{COMMIT}: CPU of metastore": 14.0,
        "a file of a plan: memory of the metastore": 100.0,
        "a file of a write: requests": 1.0,
    }
    figures = Figures({("SCALE-costs", name): value for name, value in costs.items()}, {}, {})
    needs = compute_needs(figures, 1000, 10**6)
    assert (needs.commits, needs.puts, needs.postgres_cores, needs.metastore_cores) == (100, 100, 0.05, 1.4)
    assert needs.replicas == 3, "two that are full, and one that may be away"
    assert needs.postgres_mib == pytest.approx(500 + (10**9 + 100 * 3600 * 2000) / MIB)
    assert needs.plan_mib == pytest.approx(1000 * 100 / MIB)
    assert compute_needs(figures, 1, 10**6).replicas == 2


def test_a_rate_takes_the_cpu_of_its_units() -> None:
    figures = Figures({("SCALE-reader", to_name("reader", 1, "CPU of the service")): 1500.0}, {}, {})
    assert cores_for(figures, "reader", 2.0) == 3.0


def test_each_cpu_time_says_what_it_is_of() -> None:
    rows = [line.split(" | ") for line in render_page().splitlines() if "/s | " in line and line.count(" | ") == 5]
    assert len(rows) == 15
    for row in rows:
        unit = "a commit" if row[0] == "| metastore" else "a million rows"
        assert [each.lstrip("0123456789.,") for each in row[3:5]] == [f" {unit}"] * 2


def test_the_next_unit_is_the_first_that_began_after_the_kill() -> None:
    done = [(1.0, 1.2), (2.0, 6.0), (6.5, 6.8), (5.5, 7.0)]
    assert find_next(done, 5.0) == pytest.approx(1.8)
    with pytest.raises(WrongAnswerError, match="no unit was done after the kill; 4 were before it"):
        find_next(done, 9.0)
