"""Which revisions of the schema this version has, read from its migrations without running them.

Alembic would import each migration, and with it a library of templates: half a second at each start of the service.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MIGRATIONS: Final = Path(__file__).parent / "migrations"


@dataclass(frozen=True)
class Revisions:
    """The revisions of this version.

    Args:
        previous: Of each revision the one before it; None: it is the first one.
    """

    previous: dict[str, str | None]

    @property
    def head(self) -> str:
        """The last one, which no other one comes after."""
        (head,) = self.previous.keys() - set(self.previous.values())
        return head


def read_revisions() -> Revisions:
    """Reads the files; blocks for a few milliseconds."""
    found = [_assigned(file) for file in sorted((MIGRATIONS / "versions").glob("*.py"))]
    return Revisions({str(values["revision"]): values["down_revision"] for values in found})


def _assigned(file: Path) -> dict[str, str | None]:
    """The constants that a module assigns to its names."""
    found: dict[str, str | None] = {}
    for statement in ast.parse(file.read_bytes()).body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or not isinstance(statement.value, ast.Constant):
            continue
        value = statement.value.value
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if value is None or isinstance(value, str):
            found.update({target.id: value for target in targets if isinstance(target, ast.Name)})
    return found
