"""Who may import whom: the contracts of pyproject.toml, held by import-linter."""

from __future__ import annotations

import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import tomlkit

from dev.programs import problems_of

TITLE = "every import goes the way that ARCHITECTURE.md allows"

_LISTS_OF_OURS = ("modules", "source_modules", "protected_modules", "allowed_importers", "containers")


def find_problems(root: Path) -> list[str]:
    """Imports that break a contract, with their chain.

    import-linter insists that every module a contract names exists. Rooms come one after the other, so contracts are
    applied to those of their modules that are there.
    """
    rules = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    ours = tuple(rules["root_packages"])
    rules["root_packages"] = [name for name in ours if _exists(root, name)]
    rules["contracts"] = [
        kept for contract in rules["contracts"] if (kept := _of_present_modules(root, contract, ours))
    ]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "rules.toml"
        config.write_text(tomlkit.dumps({"tool": {"importlinter": rules}}))
        program = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports;"
        program += "sys.exit(lint_imports(sys.argv[1], no_cache=True, no_logo=True))"
        return problems_of([sys.executable, "-c", program, str(config)], root)


def _of_present_modules(root: Path, contract: dict[str, Any], ours: tuple[str, ...]) -> dict[str, Any] | None:
    kept = dict(contract)
    for key in _LISTS_OF_OURS:
        if key in kept:
            kept[key] = [name for name in kept[key] if _exists(root, name)]
    forbidden = kept.get("forbidden_modules")
    if forbidden is not None:
        kept["forbidden_modules"] = [name for name in forbidden if name not in ours or _exists(root, name)]
    enough = 2 if kept["type"] == "independence" else 1
    needed = ("modules", "source_modules", "protected_modules", "forbidden_modules", "containers")
    return kept if all(len(kept[key]) >= enough for key in needed if key in kept) else None


def _exists(root: Path, module: str) -> bool:
    place = root.joinpath(*module.split("."))
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()
