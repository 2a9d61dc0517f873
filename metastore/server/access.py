"""Which role each RPC needs, and whether a caller may call it at all. Denies by default.

`privileges/table.py` has the privileges of every RPC; a test fails when one is missing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakelog.errors import PermissionDenied
from lakelog.serving.access import Caller, Role

from .privileges.table import PRIVILEGES

NEEDED_ROLES: Final[Mapping[str, Role | None]] = {method: each.role for method, each in PRIVILEGES.items()}
"""The role that each RPC needs; None: open to everyone."""


def check_allowed(method: str, caller: Caller) -> None:
    """Refuses what neither a caller's role nor any grant allows; `privileges/authorization.py` checks grants.

    Args:
        method: The RPC's full name, `/package.Service/Method`.
        caller: The caller.

    Raises:
        PermissionDenied: The role is too low and grants do not help, or the RPC is not listed in `NEEDED_ROLES`.
    """
    if method not in NEEDED_ROLES:
        raise PermissionDenied(f"{method} is open to no role.", metadata={"method": method})
    needed = NEEDED_ROLES[method]
    if needed is not None and caller.role < needed and not PRIVILEGES[method].takes_grants:
        raise PermissionDenied(
            f"{caller.name} has the role {caller.role.name.lower()}, but {method.rpartition('/')[2]} needs "
            f"{needed.name.lower()}. Ask an operator for a token with that role.",
            metadata={"caller": caller.name, "role": caller.role.name.lower(), "needed": needed.name.lower()},
        )
