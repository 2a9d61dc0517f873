"""What holds of all declared options together."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from lakelog.errors import InvalidArgument
from lakelog.options import declared
from lakelog.options.declared.refused import REFUSED_OPTIONS
from lakelog.options.option import Option, Scope
from lakelog.options.registry import ALL_OPTIONS, find_option
from lakelog.options.value_types import Choice

ROOT = Path(__file__).resolve().parents[3]
MODULES = [import_module(f"{declared.__name__}.{module.name}") for module in pkgutil.iter_modules(declared.__path__)]
CONSTANTS = {
    (value.scope, value.key): name
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, Option)
}
ACCESSORS = {"bucket": "bucket_count", "target-file-size": "target_file_size_bytes"}
"""Options whose default depends on the table: they are read by a method of TableOptions."""


def product_sources() -> str:
    rooms = [ROOT / "lakelog", ROOT / "metastore", ROOT / "writer"]
    files = [path for room in rooms for path in room.rglob("*.py") if ROOT / "lakelog" / "options" not in path.parents]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def test_every_option_is_a_constant_and_is_registered() -> None:
    assert {(option.scope, option.key) for option in ALL_OPTIONS} == set(CONSTANTS)


def test_keys_are_unique_and_lower_case() -> None:
    keys = [(option.scope, option.key) for option in ALL_OPTIONS]
    assert len(set(keys)) == len(keys)
    # Spark's own name for what its sources have in common, and reads keys in any case.
    own = [option.key for option in ALL_OPTIONS if not re.fullmatch(r"max[A-Z][a-z]+PerTrigger", option.key)]
    assert all(re.fullmatch(r"[a-z]+([.-][a-z]+)*", key) for key in own)


@pytest.mark.parametrize("option", ALL_OPTIONS, ids=lambda option: f"{option.scope.value}-{option.key}")
def test_descriptions_are_sentences(option: Option[Any]) -> None:
    assert option.description.endswith(".")
    assert option.scope is Scope.TABLE or not option.fixed_because


@pytest.mark.parametrize(
    "option",
    # An option with a single value leaves nothing to read: it is there so that its only value may be written down.
    [option for option in ALL_OPTIONS if not (isinstance(option.type, Choice) and len(option.type.values) == 1)],
    ids=lambda option: f"{option.scope.value}-{option.key}",
)
def test_every_option_is_read(option: Option[Any]) -> None:
    accessor = ACCESSORS.get(option.key)
    pattern = rf"\.{accessor}\(" if accessor else rf"\b{CONSTANTS[option.scope, option.key]}\b"
    found = re.search(pattern, product_sources()) is not None
    assert found, f"nothing outside lakelog/options reads '{option.key}' (searched for {pattern})"


def test_no_declared_option_is_refused_by_name() -> None:
    assert not {option.key for option in ALL_OPTIONS} & set(REFUSED_OPTIONS)


def test_reasons_can_stand_in_a_sentence() -> None:
    for reason in REFUSED_OPTIONS.values():
        assert not reason.endswith(".")
        assert reason[0].islower() or reason.startswith("Spark")


def test_the_page_is_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "dev" / "options_page.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("snapshot.num-retaned.max", "snapshot.num-retained.max"),
        ("Snapshot.time-retaind", "snapshot.time-retained"),
        ("changelog.num-retained-min", "changelog.num-retained.min"),
        ("partition.expiration-tme", "partition.expiration-time"),
        ("consumer.expiration-times", "consumer.expiration-time"),
    ],
)
def test_a_misspelled_option_names_the_one_that_was_meant(slip: str, meant: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"Option '{slip}' is unknown\. Did you mean '{meant}'\?"):
        find_option(slip, Scope.TABLE)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("log.retension", "'log.retention'"),
        ("log.partitions", "'log.system.partitions'"),
        ("kafka.sasl.user", "'kafka.sasl.username'"),
    ],
)
def test_an_option_of_a_refused_family_names_those_like_it(key: str, meant: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"Leave it out, or did you mean {meant}\?$") as refused:
        find_option(key, Scope.TABLE)
    assert refused.value.reason == "REFUSED_OPTION"


def test_an_option_that_is_refused_by_its_own_name_is_not_taken_for_a_slip() -> None:
    with pytest.raises(InvalidArgument, match=r"Leave it out\.$"):
        find_option("kafka.sasl.mechanisms", Scope.TABLE)


@pytest.mark.parametrize("key", ["snapshot.expire.limit", "partition.mark-done-action", "changelog.precommit-compact"])
def test_options_of_others_are_refused_with_their_reason(key: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"Option '{key}' is not in this version: ") as refused:
        find_option(key, Scope.TABLE)
    assert refused.value.reason == "REFUSED_OPTION"
