"""Names are the field's words: those that were given up (`dev/words.toml`) do not come back."""

from __future__ import annotations

import re
import tokenize
import tomllib
from io import StringIO
from pathlib import Path

from dev.programs import tracked_files
from dev.rename import MAP

TITLE = "no name has a word that dev/words.toml replaced by the field's"

ALLOWED = {
    "CHECKPOINT_MISFIT": "a reason of errors, which programs compare",
    "FILE_MISFIT": "a reason of errors, which programs compare",
    "TOLD_BY_OTHERS": "a reason of errors, which programs compare",
    "tell": "Python's files have it",
}

_WORDS_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_GENERATED = Path("lakelog/rpc/v1")


def find_problems(root: Path) -> list[str]:
    """Python names, and words of .proto files, with file, line and what stands in their place."""
    if not (root / MAP).exists():
        return []
    replaced: dict[str, str] = tomllib.loads((root / MAP).read_text())["words"]
    problems = []
    for path in tracked_files(root):
        if path.suffix not in (".py", ".proto") or path.is_relative_to(_GENERATED):
            continue
        for line, name in _find_names((root / path).read_text(encoding="utf-8"), path.suffix):
            words = dict.fromkeys(found.lower() for found in _WORDS_OF_NAME.findall(name) if name not in ALLOWED)
            problems += [
                f"{path}:{line}: {name}: for {word!r} the field says: {replaced[word]}"
                for word in words
                if word in replaced
            ]
    return problems


def _find_names(text: str, suffix: str) -> list[tuple[int, str]]:
    if suffix == ".py":
        tokens = tokenize.generate_tokens(StringIO(text).readline)
        return [(token.start[0], token.string) for token in tokens if token.type == tokenize.NAME]
    lines = (line.partition("//")[0] for line in text.splitlines())
    return [(number, name) for number, line in enumerate(lines, 1) for name in re.findall(r"\w+", line)]
