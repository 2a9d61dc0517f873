"""Masks secrets in what leaves the house: the files of a support bundle.

`redaction` spares what may be no secret, since its texts are read in place. Here it is the other way round: what is
called like a secret is masked, whatever it is. The name of a file with a token may then be lost as well. Secrets that
this process knows are found in base64, in addresses and in quotes, too: that takes too long for each line of a log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from lakelog.privacy.encodings import encode_secret
from lakelog.privacy.redaction import BLOT, blot_out, list_known_secrets

_WORDS: Final = (
    r"pass(?:word|wd|phrase)|(?<![a-z])(?:pass|sig)(?![a-z])|pwd|secret|token|credential|"
    r"(?:private|access|api|account|signing|encryption)[._-]?key|jaas|authorization|signature|cookie|sasl[._-](?:username|mechanism[._-]oauth)|key[._-]?(?:pem|store)"
)

# Repetitions have limits, so that a log with a word of a million characters takes no longer than another.
_SECRET_NAME: Final = re.compile(rf"(?i){_WORDS}")

# A name with such a word, a sign, and a value: in quotes, which end with as many backslashes as they begin with where
# one text is in another; from a quote without end to the end of the line; or up to the next space.
_ASSIGNED: Final = re.compile(
    rf"(?i)((?:{_WORDS})[\w.-]{{0,64}}\\{{0,9}}[\"']?\s{{0,9}}(?:=>|[=:])\s{{0,9}}(?:b(?=[\"']))?)"
    r"(?:(?P<depth>\\*)(?P<quote>[\"']).*?(?<!\\)(?P=depth)(?P=quote)|\\*[\"'][^\n]*|"
    r"(?:(?:bearer|basic)\s+)?[^\s,;&\"'}\])]+)"
)

# An option of a command line, also in a list of Python; a word of SQL before a text in quotes.
_GIVEN: Final = re.compile(
    rf"(?i)(--[\w-]{{0,64}}(?:{_WORDS})[\w-]{{0,64}}[\"']?,?\s+[\"']?|\b(?:password|identified\s+by)\s+\\*')[^\s\"',\]]+"
)

# What can be nothing else after such a word: it has letters and digits.
_SAID: Final = re.compile(
    r"(?i)(\b(?:password|passphrase|passwd|pwd|secret|token)(?:\s+is)?\s+)(?=[^\s\d]*\d)(?=[^\sa-z]*[a-z])[^\s\"',]{8,}"
)

_LOGIN_OPTION: Final = re.compile(r"((?:^|\s)(?:-u|--user)[\s=]+)[^\s:]+:\S+")

_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL
)

_END_OF_KEY: Final = re.compile(r"\A(?:(?!-----BEGIN).)*?-----END [A-Z0-9 ]*PRIVATE KEY-----", re.DOTALL)
"""The rest of a key whose beginning was cut off."""

_SIGNED_TOKEN: Final = re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?")

_ACCESS_KEY_ID: Final = re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b")

# To the last sign in the word: a password may hold one, or a slash.
_URL_LOGIN: Final = re.compile(r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*://)[^\s\"',]{1,500}@")

_QUOTED_URL_LOGIN: Final = re.compile(r"(?i)(%3a%2f%2f)[^\s\"'&]{1,500}?%40")

_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{8,}")


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name may hold a secret. Pure."""
    return bool(_SECRET_NAME.search(name))


def mask(text: str) -> str:
    """A text without secrets that this process knows, and without all that has the form of one."""
    text = _END_OF_KEY.sub(BLOT, _PRIVATE_KEY.sub(BLOT, text))
    text = _URL_LOGIN.sub(rf"\1{BLOT}@", _blot_out_encoded(text))
    text = _QUOTED_URL_LOGIN.sub(rf"\1{BLOT}%40", text)
    for named in (_ASSIGNED, _GIVEN, _SAID, _LOGIN_OPTION):
        text = named.sub(rf"\1{BLOT}", text)
    for form in (_SIGNED_TOKEN, _ACCESS_KEY_ID):
        text = form.sub(BLOT, text)
    return _BEARER.sub(rf"\1\2{BLOT}", text)


def _blot_out_encoded(text: str) -> str:
    """A text without secrets that this process knows, in any of their forms.

    Their addresses come first: a pattern for logins would cut a secret in parts, which are no longer found.
    """
    for form in _list_forms(frozenset(list_known_secrets())):
        text = text.replace(form, BLOT)
    return blot_out(text)


@lru_cache(maxsize=2)
def _list_forms(secrets: frozenset[str]) -> list[str]:
    """The longest first: one may begin with another."""
    return sorted(secrets.union(*map(encode_secret, secrets)), key=len, reverse=True)


def mask_all(value: Any) -> Any:
    """A value of JSON with all texts masked, and all that stands under the name of a secret."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {mask(str(name)): _mask_named(str(name), each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [mask_all(each) for each in value]
    return value


def _mask_named(name: str, value: Any) -> Any:
    if is_secret_name(name) and isinstance(value, str | bytes | list | tuple | Mapping) and value:
        return BLOT
    return mask_all(value)
