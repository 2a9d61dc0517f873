from __future__ import annotations

import threading

import pytest

import lakelog
from lakelog.cli.failures import describe_error
from lakelog.cli.output.output_format import OutputFormat
from lakelog.errors import InternalError, InvalidArgument, LakelogError, NotFound, OutcomeUnknown
from lakelog.tracing.request_ids import current, current_or_new, request_id


def test_all_calls_in_a_block_have_its_id() -> None:
    with lakelog.request_id("nightly-7") as given:
        assert given == current_or_new() == current.get() == "nightly-7"
        with request_id() as inner:
            assert inner == "nightly-7", "a block inside belongs to the operation"
        with request_id("other") as inner:
            assert inner == current.get() == "other"
        assert current.get() == "nightly-7"
    assert current.get() == ""


def test_without_a_block_each_call_has_its_own() -> None:
    assert len({current_or_new() for _ in range(100)}) == 100


def test_a_thread_of_its_own_is_an_operation_of_its_own() -> None:
    seen = []
    with request_id("mine"):
        thread = threading.Thread(target=lambda: seen.append(current.get()))
        thread.start()
        thread.join()
    assert seen == [""]


@pytest.mark.parametrize("given", ["no id", "x" * 65, "a\nb", "ü"])
def test_what_servers_would_ignore_is_refused(given: str) -> None:
    with pytest.raises(InvalidArgument, match="is no id of a request"), request_id(given):
        pass


@pytest.mark.parametrize(
    ("error", "is_shown"),
    [(InternalError, True), (OutcomeUnknown, True), (NotFound, False), (InvalidArgument, False)],
)
def test_the_command_shows_the_id_where_logs_say_more(error: type[LakelogError], is_shown: bool) -> None:
    made = error("It went wrong.", metadata={"request_id": "nightly-7"})
    text = describe_error(made, OutputFormat.TABLE)
    assert text == ("Error: It went wrong.\nRequest: nightly-7" if is_shown else "Error: It went wrong.")
    assert '"request_id": "nightly-7"' in describe_error(made, OutputFormat.JSON)
    assert describe_error(error("It went wrong."), OutputFormat.TABLE) == "Error: It went wrong."
