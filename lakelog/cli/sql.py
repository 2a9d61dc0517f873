"""`lakelog sql`: statements from the command line, a file, the standard input or a person."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from lakelog.cli.failures import describe_error
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.row_output import print_json, print_table
from lakelog.cli.statements import split_statements
from lakelog.cli.text import plural
from lakelog.errors import InvalidArgument, LakelogError, NotFound

_PROMPT: Final = "lakelog> "
_CONTINUED: Final = "      -> "
_LEAVE: Final = frozenset({"exit", "quit", "\\q"})
_HISTORY_LENGTH: Final = 1000
