"""Which revisions of the schema this version has, read from its migrations without running them.

Alembic would import each migration, and with it a library of templates: half a second at each start of the service.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MIGRATIONS: Final = Path(__file__).parent / "migrations"


@dataclass(frozen=True)
class Revisions:
    """The revisions of this version.

    Args:
        previous: Of each revision the one before it; None: it is the first one.
        served_from: The oldest revision whose metastores can serve a database after this step, as far as the step
            itself is concerned: it only adds. Steps that say nothing need their own metastores.
    """

    previous: dict[str, str | None]
    served_from: dict[str, str] = field(default_factory=dict)

    @property
    def head(self) -> str:
        """The last one, which no other one comes after."""
        (head,) = self.previous.keys() - set(self.previous.values())
        return head

    def find_served_from(self, revision: str) -> str:
        """The oldest revision whose metastores can serve a database of this revision, by all steps to it. Pure."""
        steps = [revision]
        while (previous := self.previous[steps[-1]]) is not None:
            steps.append(previous)
        steps.reverse()
        return steps[max(steps.index(self.served_from.get(step, step)) for step in steps)]


def read_revisions() -> Revisions:
    """Reads the files; blocks for a few milliseconds."""
    found = [_assigned(file) for file in sorted((MIGRATIONS / "versions").glob("*.py"))]
    return Revisions(
        {str(values["revision"]): values["down_revision"] for values in found},
        {str(values["revision"]): served for values in found if (served := values.get("served_from"))},
    )


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
