"""Masks secrets in what leaves the house: the files of a support bundle.

`redaction` spares what may be no secret, since its texts are read in place. Here it is the other way round: what is
called like a secret is masked, whatever it is. The name of a file with a token may then be lost as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from lakelog.privacy.redaction import BLOT, blot_out

_WORDS: Final = (
    r"pass(?:word|wd|phrase)|pwd|secret|token|credential|(?:private|access|api|account|signing|encryption)[._-]?key|"
    r"jaas|authorization|signature|cookie|sasl[._-](?:username|mechanism[._-]oauth)|key[._-]?(?:pem|store)"
)

_SECRET_NAME: Final = re.compile(rf"(?i){_WORDS}")

# A name with such a word, a sign, and a value: in quotes, which end with as many backslashes as they begin with where
# one text is in another; from a quote without end to the end of the line; or up to the next space.
_ASSIGNED: Final = re.compile(
    rf"(?i)([\w.-]*(?:{_WORDS})[\w.-]*\\*[\"']?\s*(?:=>|[=:])\s*)"
    r"(?:(?P<depth>\\*)(?P<quote>[\"']).*?(?<!\\)(?P=depth)(?P=quote)|\\*[\"'][^\n]*|"
    r"(?:(?:bearer|basic)\s+)?[^\s,;&\"'}\])]+)"
)

_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL
)

_END_OF_KEY: Final = re.compile(r"\A(?:(?!-----BEGIN).)*?-----END [A-Z0-9 ]*PRIVATE KEY-----", re.DOTALL)
"""The rest of a key whose beginning was cut off."""

_SIGNED_TOKEN: Final = re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?")

_ACCESS_KEY_ID: Final = re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b")

_URL_LOGIN: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@\"']+@")

_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{8,}")


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name may hold a secret. Pure."""
    return bool(_SECRET_NAME.search(name))


def mask(text: str) -> str:
    """A text without secrets that this process knows, and without all that has the form of one."""
    text = _END_OF_KEY.sub(BLOT, _PRIVATE_KEY.sub(BLOT, text))
    text = _URL_LOGIN.sub(rf"\1{BLOT}@", blot_out(text))
    text = _ASSIGNED.sub(rf"\1{BLOT}", text)
    for form in (_SIGNED_TOKEN, _ACCESS_KEY_ID):
        text = form.sub(BLOT, text)
    return _BEARER.sub(rf"\1\2{BLOT}", text)


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
