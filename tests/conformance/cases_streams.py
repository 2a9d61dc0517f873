"""All cases of section 5."""

from __future__ import annotations

from tests.conformance import cases_full_compaction, cases_stream_positions, cases_stream_shown, cases_stream_starts

CASES = (
    *cases_stream_starts.CASES,
    *cases_stream_shown.CASES,
    *cases_stream_positions.CASES,
    *cases_full_compaction.STREAMS,
)
