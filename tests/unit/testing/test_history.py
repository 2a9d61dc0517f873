"""The checker of histories, on good ones and on each kind of bad one."""

from __future__ import annotations

import pytest

from lakelog.testing.history import Kind, SeenSnapshot, Write, check_history

ONE = Write("a", 1, {"t": ("a1", "a1'"), "u": ("a1u",)}, "acknowledged", 1.0, 2.0)
TWO = Write("a", 2, {"t": ("a2",)}, "acknowledged", 3.0, 4.0)
REFUSED = Write("b", 1, {"t": ("b1",)}, "refused", 1.0, 2.0)
UNKNOWN = Write("c", 1, {"t": ("c1",)}, "unknown", 1.0)
WRITES = [ONE, TWO, REFUSED, UNKNOWN]

T1 = SeenSnapshot("t", 1, ("a1", "a1'"))
T2 = SeenSnapshot("t", 2, ("a2",))
U1 = SeenSnapshot("u", 1, ("a1u",))


def kinds(seen: list[SeenSnapshot], writes: list[Write] = WRITES) -> set[Kind]:
    return {finding.kind for finding in check_history(writes, seen)}


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([T1, T2, U1], id="an unknown write that did not happen"),
        pytest.param([T1, T2, U1, SeenSnapshot("t", 3, ("c1",))], id="one that did"),
        pytest.param([T1, T2, U1, SeenSnapshot("t", 3, ())], id="a snapshot without values"),
    ],
)
def test_a_good_history_has_no_findings(seen: list[SeenSnapshot]) -> None:
    assert check_history(WRITES, seen) == []


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        ([T1, U1], Kind.LOST),
        ([], Kind.LOST),
        ([T1, T2, U1, SeenSnapshot("t", 3, ("a2",))], Kind.DUPLICATE),
        ([T1, U1, SeenSnapshot("t", 2, ("a2", "a2"))], Kind.DUPLICATE),
        ([T1, T2, U1, SeenSnapshot("t", 3, ("b1",))], Kind.ABORTED_READ),
        ([T1, T2], Kind.TORN),
        ([SeenSnapshot("t", 1, ("a1",)), T2, U1], Kind.TORN),
        ([T1, T2, U1, SeenSnapshot("t", 3, ("z9",))], Kind.PHANTOM),
        ([T1, T2, SeenSnapshot("u", 1, ("a1u", "a2"))], Kind.PHANTOM),
        ([SeenSnapshot("t", 1, ("a2",)), SeenSnapshot("t", 2, ("a1", "a1'")), U1], Kind.OUT_OF_ORDER),
        ([T1, SeenSnapshot("t", 3, ("a2",)), U1], Kind.GAP),
        ([SeenSnapshot("t", 1, ("a1",)), SeenSnapshot("t", 2, ("a1'",)), SeenSnapshot("t", 3, ("a2",)), U1], Kind.TORN),
    ],
)
def test_each_kind_of_bad_history_is_found(seen: list[SeenSnapshot], kind: Kind) -> None:
    assert kind in kinds(seen)


def test_what_was_acknowledged_comes_before_what_began_later_also_of_another_writer() -> None:
    early = Write("a", 1, {"t": ("x",)}, "acknowledged", 1.0, 2.0)
    late = Write("b", 1, {"t": ("y",)}, "acknowledged", 3.0, 4.0)
    at_once = Write("b", 1, {"t": ("y",)}, "acknowledged", 1.5, 4.0)
    seen = [SeenSnapshot("t", 1, ("y",)), SeenSnapshot("t", 2, ("x",))]
    assert kinds(seen, [early, late]) == {Kind.OUT_OF_ORDER}
    assert kinds(seen, [early, at_once]) == set()


def test_a_finding_says_what_and_where() -> None:
    (finding,) = check_history([TWO], [])
    assert str(finding) == "LOST: an acknowledged value is not there: a2 in t, of write 2 of a"
