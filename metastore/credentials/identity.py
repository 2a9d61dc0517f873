"""By what the metastore itself is known to the token service: keys, or a token of the cluster that it runs in.

Of the chain of Amazon's programs these two suffice for servers: variables with keys, and the token of a Kubernetes
service account, which the cluster replaces in its file before it ends. Everything is read again for each request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lakelog.config import read_s3_settings
from lakelog.errors import InvalidArgument

from .signing import SigningKeys

WEB_IDENTITY_VARIABLE: Final = "AWS_WEB_IDENTITY_TOKEN_FILE"

_TOKEN: Final = re.compile(r"[A-Za-z0-9_=.-]{4,20000}")


@dataclass(frozen=True)
class WebIdentity:
    """A token that an issuer has signed, which the role trusts. It shows no secret."""

    token: str = field(repr=False)


Identity = SigningKeys | WebIdentity


def read_identity(environment: Mapping[str, str]) -> Identity:
    """The identity by the variables of an environment: keys first, then the file with a token.

    Raises:
        InvalidArgument: There is neither, only a part of the keys, or the file cannot be used.
    """
    settings = read_s3_settings(environment)
    if settings.access_key_id is not None and settings.secret_access_key is not None:
        # Plain texts: what is read from the environment pickles by its name, and this never leaves the process.
        token = settings.session_token
        return SigningKeys(
            str(settings.access_key_id), str(settings.secret_access_key), None if token is None else str(token)
        )
    path = environment.get(WEB_IDENTITY_VARIABLE)
    if not path:
        raise InvalidArgument(
            "To vend keys (--vend-role) the metastore needs an identity of its own: set LAKELOG_S3_ACCESS_KEY_ID and "
            f"LAKELOG_S3_SECRET_ACCESS_KEY (or AWS_*), or {WEB_IDENTITY_VARIABLE} with the file of a service account's "
            "token.",
            metadata={"field": WEB_IDENTITY_VARIABLE},
        )
    return WebIdentity(_read_token(path))


def _read_token(path: str) -> str:
    problem = "it does not hold one token"
    try:
        token = Path(path).read_text("ascii").strip()
    except OSError as error:
        token, problem = "", str(error.strerror)
    except UnicodeDecodeError:
        token, problem = "", "it is not ASCII text"
    if not _TOKEN.fullmatch(token):
        raise InvalidArgument(
            f"The file {WEB_IDENTITY_VARIABLE} {path} cannot be used: {problem}.",
            metadata={"field": WEB_IDENTITY_VARIABLE, "value": path},
        )
    return token
