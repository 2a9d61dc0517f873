"""Blots secrets out of texts for people: log lines, errors, the output of commands.

It is the last defence, not the first. It finds two sorts of secrets. Secrets that this process knows are found at any
place, for instance in a traceback or the text of a library. Texts of a form that only secrets have are found too, such
as the password in a URL.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

BLOT: Final = "***"

MIN_CHARACTERS: Final = 8
"""Shorter secrets are not searched: they would blot out words."""

_NAMES: Final = re.compile(r"(?i)(token|secret|password|passwd|credential|private_?key)")
"""Variables of the environment whose values are secrets."""

_NO_SECRETS: Final = re.compile(r"(?i)(_(file|dir|folder|path|url|uri|id|ca|issuer|audience|claim)|_token_keys)$")
"""Endings of names of variables that only hold the place of a secret, or say what a token must be like."""

_DATABASE: Final = "LAKELOG_DATABASE_URL"

_LOGIN: Final = re.compile(r"((?:^|[\s'\"(=,/])[^\s/:@'\"(=,]*):[^\s/@'\"]+@")
"""`user:password@`, with or without a scheme before it."""

_BEARER: Final = re.compile(r"(?i)\b(bearer\s+)[^\s'\",;)\\]+")

_ASSIGNED: Final = re.compile(
    r"(?i)\b((?:password|passwd|secret_?(?:access_?)?key|session_?token)\\?['\"]?\s*[=:]\s*(?:b(?=['\"]))?\\?['\"]?)[^\s'\",;&\\]+"
)

_lock: Final = threading.Lock()
_known: set[str] = set()
_pattern: re.Pattern[str] | None = None


def remember_secret(secret: str) -> None:
    """Makes this process blot out a secret from now on; several threads may call it."""
    global _pattern
    text = secret.strip()
    if len(text) < MIN_CHARACTERS or text in _known:
        return
    # Another thread's pattern, made at the same time, would be without this one.
    with _lock:
        # The form in a text, and the form in a line of JSON.
        _known.update((text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]))
        # The longest first: one secret may begin with another.
        _pattern = re.compile("|".join(map(re.escape, sorted(_known, key=len, reverse=True))))


def remember_secrets(environment: Mapping[str, str]) -> None:
    """Remembers the secrets in the variables of an environment."""
    for name, value in environment.items():
        if _NAMES.search(name) and not _NO_SECRETS.search(name):
            remember_secret(value)
    password = _find_password(environment.get(_DATABASE, ""))
    remember_secret(password)
    remember_secret(unquote(password))


def list_known_secrets() -> list[str]:
    """The secrets that this process knows, in the forms in which they are searched."""
    return list(_known)


def blot_out(text: str) -> str:
    """Returns a text without secrets. Cheap enough for each line of a log."""
    if _pattern is not None:
        text = _pattern.sub(BLOT, text)
    return blot_out_forms(text)


def blot_out_forms(text: str) -> str:
    """Returns a text without parts that have the form of a secret, known to this process or not. Pure."""
    if "@" in text:
        text = _LOGIN.sub(rf"\1:{BLOT}@", text)
    text = _BEARER.sub(rf"\1{BLOT}", text)
    return _ASSIGNED.sub(rf"\1{BLOT}", text)


def _find_password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""
