"""The forms in which a secret may stand in a text: in addresses, in base64, in hexadecimal digits, in quotes. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

_LEAST: Final = 8
"""Shorter texts would be found by chance."""


def encode_secret(secret: str) -> set[str]:
    """All forms of a secret but its own."""
    content = secret.encode(errors="surrogateescape")
    addressed = {quote(content, safe=""), quote(content), quote_plus(content)}
    quoted = {json.dumps(json.dumps(secret))[3:-3], repr(secret)[1:-1], repr(content)[2:-1]}
    found = addressed | {_lower_escapes(each) for each in addressed} | quoted | {content.hex(), content.hex().upper()}
    found.update(_list_base64(content))
    return {each for each in found if len(each) >= _LEAST and each != secret}


def _lower_escapes(text: str) -> str:
    """`%2F` as `%2f`: both are in use."""
    first, *others = text.split("%")
    return first + "".join(f"%{each[:2].lower()}{each[2:]}" for each in others)


def _list_base64(content: bytes) -> Iterator[str]:
    """The characters that stand for these bytes alone, whatever is before and after them, as in `user:password`."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + content).decode()
        first = (before * 8 + 5) // 6
        last = (before + len(content)) * 8 // 6
        yield text[first:last]
        yield text[first:last].translate(_URL_SAFE)


_URL_SAFE: Final = str.maketrans("+/", "-_")
