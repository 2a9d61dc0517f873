"""Asking before something is gone."""

from __future__ import annotations

import sys

import click

from lakelog.cli.invocation import Invocation
from lakelog.errors import InvalidArgument, LakelogError


def confirm(invocation: Invocation, question: str, yes: bool, *, declined: str) -> None:
    """Asks on the terminal whether to go on; returns when the answer is yes or was given by `--yes`.

    Args:
        invocation: Where to ask.
        question: What is to happen, with a question mark.
        yes: Whether `--yes` was given.
        declined: What did not happen, as a sentence.

    Raises:
        LakelogError: The answer was no.
        InvalidArgument: There is no one to ask.
    """
    if yes:
        return
    if invocation.printer.for_programs or not sys.stdin.isatty():
        raise InvalidArgument(f"{question} There is no terminal to ask on: add --yes if you are sure.")
    if not click.confirm(question, err=True):
        raise LakelogError(declined, reason="DECLINED")
