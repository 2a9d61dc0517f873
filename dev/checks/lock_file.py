"""requirements.lock is whole: everything asked for is in it, with hashes, from no index in particular.

Works without a network: what packages need is read from those that are installed, which are the lock's own.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TITLE = "requirements.lock holds all that pyproject.toml asks for, with hashes and no index (`./run lock`)"


def find_problems(root: Path) -> list[str]:
    """What is missing, unhashed or does not fit."""
    text = (root / "requirements.lock").read_text()
    problems = [f"line {number}: {line}" for number, line in enumerate(text.splitlines(), 1) if not _is_allowed(line)]
    # An entry begins at the left margin; its hashes are indented.
    entries = re.split(r"\n(?=\S)", text.replace("\\\n", " ").strip())
    pinned: dict[str, str] = {}
    for entry in entries:
        requirement = Requirement(entry.split(" --hash", 1)[0].strip())
        if "--hash=sha256:" not in entry:
            problems.append(f"{requirement.name} has no hash")
        if requirement.marker is None or requirement.marker.evaluate():
            pinned[canonicalize_name(requirement.name)] = str(requirement.specifier).removeprefix("==")
    return problems + _unmet(root, pinned)


def _is_allowed(line: str) -> bool:
    return bool(re.match(r"[a-z0-9][a-z0-9._-]*==\S+( ;[^\\]+)? \\$|    --hash=sha256:[0-9a-f]{64}( \\)?$", line))


def _unmet(root: Path, pinned: dict[str, str]) -> list[str]:
    problems: set[str] = set()
    requested = _asked_for(root)
    seen: set[str] = set()
    while requested:
        source, requirement = requested.pop()
        name = canonicalize_name(requirement.name)
        if name == "lakelog":
            continue
        if name not in pinned:
            problems.add(f"{requirement} is not in the lock ({source} needs it)")
            continue
        if not requirement.specifier.contains(pinned[name], prereleases=True):
            problems.add(f"{name} {pinned[name]} in the lock is not {requirement} ({source} needs it)")
        key = f"{name}[{','.join(sorted(requirement.extras))}]"
        if key not in seen:
            seen.add(key)
            try:
                if version(name) != pinned[name]:
                    problems.add(f"{name} {version(name)} is installed, the lock has {pinned[name]}")
                requested += [(name, needed) for needed in _needs(name, requirement.extras)]
            except PackageNotFoundError:
                problems.add(f"{name} is in the lock and not installed")
    return sorted(problems)


def _asked_for(root: Path) -> list[tuple[str, Requirement]]:
    project = tomllib.loads((root / "pyproject.toml").read_text())
    groups = [project["project"]["dependencies"], project["build-system"]["requires"]]
    groups.append(project["dependency-groups"]["dev"])
    groups += project["project"]["optional-dependencies"].values()
    return [("pyproject.toml", Requirement(line)) for group in groups for line in group]


def _needs(name: str, extras: set[str]) -> list[Requirement]:
    found = [Requirement(line) for line in requires(name) or []]
    return [needed for needed in found if _applies(needed, extras)]


def _applies(needed: Requirement, extras: set[str]) -> bool:
    return needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras))
