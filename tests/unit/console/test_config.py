"""Settings of the console that exclude each other."""

from __future__ import annotations

import pytest

from console.config import parse_config
from lakelog.errors import InvalidArgument

PLAIN = ["serve", "--insecure-dev", "--target", "localhost:7450"]


def test_no_one_acts_by_a_token_that_everyone_shares() -> None:
    assert parse_config([*PLAIN, "--actions"], {}).actions
    assert parse_config([*PLAIN, "--share-own-token"], {}).shares_own_token
    with pytest.raises(InvalidArgument, match="--actions and --share-own-token exclude each other"):
        parse_config([*PLAIN, "--actions"], {"LAKELOG_CONSOLE_SHARE_OWN_TOKEN": "true"})
