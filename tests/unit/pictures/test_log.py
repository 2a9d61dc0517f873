"""What pictures show of a table's log, with brokers in this process and clocks that the tests set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.errors import Unavailable
from lakelog.format.log.state import PublishReport
from lakelog.pictures.freshness import CommitAge, Freshness, draw_freshness, load_freshness
from lakelog.pictures.lag import draw_lag, load_lag
from lakelog.pictures.path import draw_path, load_path
from lakelog.pictures.timeline import Commit, Timeline, draw_timeline, load_timeline
from tests.support.log.log_world import World, rows
from tests.unit.pictures.drawn import check_readable, draw_both, texts_of


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def test_pending_commits_wait_since_their_commit(world: World) -> None:
    table, publisher = world.make()
    for number in range(4):
        world.commits.time_ms += 1_000
        table.upsert(rows((number, 0), (number + 1, 0)))
        if number == 1:
            publisher.publish()
    world.commits.time_ms += 500
    data = load_freshness(table)
    assert data.consistency == "transactional"
    assert [(each.snapshot_id, each.state, each.age_ms, each.delay_ms) for each in data.commits] == [
        (1, "published", 3_500, 1_000),
        (2, "published", 2_500, 0),
        (3, "waiting", 1_500, None),
        (4, "waiting", 500, None),
    ]
    assert (data.measured, data.median_ms, data.worst_ms) == (2, 0, 1_000)
    assert (data.waiting, data.oldest_ms) == (2, 1_500)
    for picture in draw_both(draw_freshness, data):
        check_readable(picture)
        assert {"transactional log (this table)", "waits 1.5 s", "after 1.0 s", "after 0 ms"} <= {*texts_of(picture)}
        assert "2 commits not published as a whole, for 1.5 s" in picture.description
        assert "median 0 ms, at worst 1.0 s, over 2 commits." in picture.description

    (log,) = load_lag(table).readers
    assert log.lag is not None
    assert (log.is_log, log.snapshot_id, log.lag.snapshots, log.lag.rows, log.lag.age_ms) == (True, 2, 2, 4, 1_500)
    assert "until snapshot 2" in texts_of(draw_path(load_path(table)))
    mark = load_timeline(table).log
    assert mark is not None
    assert (mark.snapshot_id, mark.behind) == (2, 2)


def test_rows_that_were_sent_before_their_commit_do_not_wait(world: World) -> None:
    table, _ = world.make(keyed=True, **{"log.consistency": "eventual"})
    table.upsert(rows((1, 1)))
    data = load_freshness(table)
    assert data.consistency == "eventual"
    assert [each.state for each in data.commits] == ["sent"]
    assert "before the commit" in texts_of(draw_freshness(data))


def test_what_a_publisher_finds_published_has_no_known_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table, publisher = world.make()
    for number in range(3):
        world.commits.time_ms += 1_000
        table.upsert(rows((number, 0)))
        if number:
            continue
        with monkeypatch.context() as dying:
            dying.setattr(world.metastore, "report_published", _die)
            with pytest.raises(Unavailable, match="It is dead"):
                publisher.publish()
        publisher.close()
    world.commits.time_ms += 60_000
    world.publish(table).publish()
    data = load_freshness(table)
    assert [(each.state, each.delay_ms) for each in data.commits] == [
        ("published", None),
        ("published", 61_000),
        ("published", 60_000),
    ]
    for picture in draw_both(draw_freshness, data):
        check_readable(picture)
        assert "time unknown" in texts_of(picture)


def _die(report: PublishReport) -> None:
    if report.snapshots:
        raise Unavailable("It is dead.")


def test_without_any_known_time_the_picture_says_so() -> None:
    published = tuple(CommitAge(number, 5, 10_000 - number, "published") for number in (1, 2))
    for picture in draw_both(draw_freshness, Freshness("shop.orders", "transactional", published)):
        check_readable(picture)
        assert "It is not known how long published commits took." in picture.description


def test_a_log_without_a_publisher_names_the_remedy(world: World) -> None:
    table = world.make_unpublished()
    table.append(rows((1, 1)))
    remedy = "No publisher serves it: start one (lakelog publisher run)."
    assert draw_freshness(load_freshness(table)).description.endswith(f"Problem: {remedy}")
    assert any(remedy in text for text in texts_of(draw_lag(load_lag(table), 1_200)))
    assert load_path(table).log.problem == remedy  # type: ignore[union-attr]


def test_ages_of_commits_do_not_meet_the_present() -> None:
    waiting = tuple(CommitAge(number, 5, 106_700_000_000 - number, "waiting") for number in (1, 2))
    for picture in draw_both(draw_freshness, Freshness("shop.orders", "transactional", waiting, 2)):
        check_readable(picture)


@pytest.mark.parametrize("commits", [1, 2])
def test_commits_of_one_moment_have_one_time(commits: int) -> None:
    at_once = tuple(Commit(number, "APPEND", 1_700_000_000_000, 5) for number in range(commits))
    for picture in draw_both(draw_timeline, Timeline("shop.orders", at_once)):
        check_readable(picture)
        assert texts_of(picture).count("22:13:20") == 1
