"""Writes the classes of `lakelog/aio/sdk/` from those of the blocking SDK.

Each method has the signature of its original, and calls it in a thread. What has no counterpart, and what an event loop
does differently, is written by hand in `lakelog/aio/`. Usage: `python -m dev.aio_classes`; `./run check aio_classes`
says whether they are current.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from dev.programs import tool

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = Path("lakelog") / "aio" / "sdk"


@dataclass(frozen=True)
class Wrapper:
    """A class to write.

    Args:
        original: The module and the name of the class of the blocking SDK.
        file: The module to write, in `FOLDER`.
        base: The module and the class that has what is written by hand.
        summary: The docstring of the class.
        left_out: Public members without a counterpart, or with one in the base; each with the reason.
        without_thread: Methods that never block.
        returns_itself: Methods that return the object itself.
        attributes: Attributes that the original sets when it is made: type and docstring.
    """

    original: tuple[str, str]
    file: str
    base: tuple[str, str]
    summary: str
    left_out: dict[str, str] = field(default_factory=dict)
    without_thread: frozenset[str] = frozenset()
    returns_itself: frozenset[str] = frozenset()
    attributes: dict[str, tuple[str, str]] = field(default_factory=dict)


_WRAPPED: Final = ("lakelog.aio.wrapped", "Wrapped")

WRAPPERS: Final = (
    Wrapper(
        ("lakelog.sdk.catalog", "Catalog"),
        "catalog",
        ("lakelog.aio.open_catalog", "OpenCatalog"),
        "Databases and tables of one metastore, for asyncio; `lakelog.aio.connect` makes it. Tasks may share it.",
        {
            "catalog": "it shares the threads",
            "close": "it ends the threads",
            "metastore": "blocks",
            "open_store": "blocks",
            "stores": "block",
            "with_ready_watches": "is for this package",
        },
        frozenset({"writer_epoch"}),
    ),
    Wrapper(
        ("lakelog.sdk.tables.table", "Table"),
        "table",
        _WRAPPED,
        "A table, for asyncio; `Catalog.table` and `Catalog.create_table` make it. Tasks may share it.",
        returns_itself=frozenset({"alter"}),
    ),
    Wrapper(
        ("lakelog.sdk.system_table", "SystemTable"),
        "system_table",
        _WRAPPED,
        "What lakelog knows of a table or of the catalog, as a table that can only be read.",
        {"schema": "may ask the metastore: `await schema_at()` returns it"},
    ),
    Wrapper(
        ("lakelog.sdk.transaction", "Transaction"),
        "transaction",
        ("lakelog.aio.open_transaction", "OpenTransaction"),
        "Writes that are committed together when the `async with` block ends, and aborted when it ends with an error.",
        {"guard": "takes a scan of this package", "write_to": "is for the SDK itself"},
        attributes={
            "result": ("TransactionResult | None", "What became of it; None until the `async with` block has ended.")
        },
    ),
    Wrapper(
        ("lakelog.sdk.transaction", "TransactionTable"),
        "transaction_table",
        _WRAPPED,
        "A table inside a transaction. Its writes become visible with the transaction.",
    ),
    Wrapper(
        ("lakelog.reads.streams.consumers", "Consumers"),
        "consumers",
        _WRAPPED,
        "The consumers of a table; `Table.consumers` makes it.",
    ),
    Wrapper(("lakelog.sdk.maintenance.tags", "Tags"), "tags", _WRAPPED, "The tags of a table; `Table.tags` makes it."),
    Wrapper(
        ("lakelog.sdk.grants", "Grants"),
        "grants",
        _WRAPPED,
        "Grants on databases and tables; `Catalog.grants` makes it.",
    ),
)

_READS: Final = (
    *("count", "databases", "dropped_tables", "files", "find_stored_rows", "head", "last_identifier", "list"),
    *("schema_at", "services", "snapshots", "system_table", "table", "tables", "to_arrow", "to_pandas", "to_polars"),
)
"""Methods without an effect, of whatever class. A transaction's `table` opens an attempt, which a cleaner ends."""

_PLANNED: Final = {"Scan": "lakelog.aio.scans", "SystemScan": "lakelog.aio.scans"}
"""What is made at once and does its work when it is awaited or read, by the class of the blocking SDK."""


def render(wrapper: Wrapper) -> str:
    """The module of a class, as ruff formats it."""
    return _Module(wrapper).render()


def generate(root: Path) -> dict[Path, str]:
    """The text of each file, by its path in the repository."""
    texts = {FOLDER / f"{each.file}.py": _format(render(each), root) for each in WRAPPERS}
    return texts | {
        FOLDER / "__init__.py": '"""The classes of the SDK for asyncio; `dev/aio_classes.py` writes them."""\n'
    }


class _Module:
    """Collects the imports of a class while its methods are written."""

    def __init__(self, wrapper: Wrapper) -> None:
        self._wrapper = wrapper
        self._imports: set[str] = set()
        self._type_imports: set[str] = set()

    def render(self) -> str:
        wrapper = self._wrapper
        module, name = wrapper.original
        original = getattr(importlib.import_module(module), name)
        base = wrapper.base[1]
        self._imports |= {
            f"from {module} import {name} as Blocking{name}",
            f"from {wrapper.base[0]} import {base}",
        }
        members = [text for each in _public_members(original) for text in self._render_member(original, *each)]
        attributes = [
            f'@property\ndef {each}(self) -> {kind}:\n    """{summary}"""\n    return self._blocking.{each}\n'
            for each, (kind, summary) in wrapper.attributes.items()
        ]
        if wrapper.attributes:
            self._take_imports(sys.modules[module], ast.parse(wrapper.attributes["result"][0]))
        body = "\n".join([*attributes, *members])
        indented = "".join(f"    {line}\n" if line else "\n" for line in body.splitlines())
        checked = "".join(f"    {line}\n" for line in sorted(self._type_imports))
        return (
            f'"""{wrapper.summary}\n\n`dev/aio_classes.py` writes this file from `{module}`; change that.\n"""\n\n'
            "from __future__ import annotations\n\nfrom typing import TYPE_CHECKING\n"
            + "\n".join(sorted(self._imports))
            + (f"\n\nif TYPE_CHECKING:\n{checked}" if checked else "")
            + f'\n\nclass {name}({base}[Blocking{name}]):\n    """{wrapper.summary}"""\n\n{indented}'
        )

    def _render_member(self, original: type, name: str, member: Any) -> Iterator[str]:
        if name in self._wrapper.left_out:
            return
        function = member.fget if isinstance(member, property) else member
        module = sys.modules[function.__module__]
        (node,) = ast.parse(_source(function)).body
        assert isinstance(node, ast.FunctionDef), "a method"
        summary = (inspect.getdoc(function) or "").splitlines()[0]
        if isinstance(member, property):
            yield self._render_property(name, node, module, summary)
            return
        planned = " It is planned when it is awaited, or first read." if _returns(node) in _PLANNED else ""
        more = "" if "lakelog." in summary else f"\n\n    See `lakelog.{original.__name__}.{name}`.{planned}\n    "
        yield self._render_method(name, node, module, summary + more)

    def _render_property(self, name: str, node: ast.FunctionDef, module: ModuleType, summary: str) -> str:
        assert node.returns is not None, f"{name} has a type"
        kind = ast.unparse(node.returns)
        value = f"self._blocking.{name}"
        wrapped = _find_wrapper(kind)
        if wrapped is None:
            self._take_imports(module, node.returns)
        else:
            self._imports.add(f"from lakelog.aio.sdk.{wrapped.file} import {kind}")
            value = f"{kind}({value}, self._workers)"
        return f'@property\ndef {name}(self) -> {kind}:\n    """{summary}"""\n    return {value}\n'

    def _render_method(self, name: str, node: ast.FunctionDef, module: ModuleType, summary: str) -> str:
        assert node.returns is not None, f"{name} has a type"
        call = f"self._blocking.{name}({_to_call(node.args)})"
        self._take_imports(module, node.args)
        declared, returned, body = self._render_body(name, call, node.returns, module)
        lines = "".join(f"    {line}\n" for line in body)
        return f'{declared} {name}({ast.unparse(node.args)}) -> {returned}:\n    """{summary}"""\n{lines}'

    def _render_body(self, name: str, call: str, node: ast.expr, module: ModuleType) -> tuple[str, str, list[str]]:
        """How a method is declared, what it returns, and its lines."""
        returned, wrapped = ast.unparse(node), _find_wrapper(ast.unparse(node))
        awaited = f"await self._workers.{'read' if name in _READS else 'change'}(lambda: {call})"
        if returned in _PLANNED:
            self._imports.add(f"from {_PLANNED[returned]} import {returned}")
            return "def", returned, [f"return {returned}(self._workers, lambda: {call})"]
        if returned == "Subscription":
            self._imports |= {
                "from lakelog.aio.opening import Opening",
                "from lakelog.aio.subscription import Subscription, open_subscription",
            }
            opening = f"return Opening(lambda: open_subscription(lambda: {call}, self._workers))"
            return "def", "Opening[Subscription]", [opening]
        if wrapped is None:
            self._take_imports(module, node)
            if name in self._wrapper.without_thread:
                return "def", returned, [f"return {call}"]
            return "async def", returned, [awaited if returned == "None" else f"return {awaited}"]
        if wrapped is not self._wrapper:
            self._imports.add(f"from lakelog.aio.sdk.{wrapped.file} import {returned}")
        if name in self._wrapper.returns_itself:
            return "async def", returned, [awaited, "return self"]
        if returned == "Transaction":
            return "def", returned, [f"return Transaction({call}, self._workers.in_turn())"]
        return "async def", returned, [f"return {returned}({awaited}, self._workers)"]

    def _take_imports(self, module: ModuleType, node: ast.AST) -> None:
        """Imports the names of a signature from where its module has them."""
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        # Not from the text of the class, but from its module's: imports of types alone count as well.
        tree = ast.parse(inspect.getsource(module))
        for place, statement in _imports_of(tree):
            for alias in statement.names:
                bound = alias.asname or alias.name
                if bound in names:
                    text = f"{_from(statement)}import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
                    (self._type_imports if place else self._imports).add(text)
                    names.discard(bound)
        defined = {each.name for each in tree.body if isinstance(each, ast.ClassDef)} & names
        self._imports |= {f"from {module.__name__} import {each}" for each in defined}


def _public_members(original: type) -> Iterator[tuple[str, Any]]:
    # In the order of docs/api.md: what it is made of comes first.
    for kind in reversed(original.__mro__):
        for name, member in vars(kind).items():
            if not name.startswith("_") and (isinstance(member, property) or inspect.isfunction(member)):
                yield name, member


def _source(function: Any) -> str:
    """The source of a method, without its indentation."""
    lines = inspect.getsource(function).splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


def _imports_of(tree: ast.Module) -> Iterator[tuple[bool, ast.Import | ast.ImportFrom]]:
    """Import statements of a module, and whether they are for type checkers alone."""
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield False, statement
        elif isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            for inner in statement.body:
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    yield True, inner


def _from(statement: ast.Import | ast.ImportFrom) -> str:
    return f"from {statement.module} " if isinstance(statement, ast.ImportFrom) else ""


def _returns(node: ast.FunctionDef) -> str:
    return "" if node.returns is None else ast.unparse(node.returns)


def _find_wrapper(returned: str) -> Wrapper | None:
    return next((each for each in WRAPPERS if each.original[1] == returned), None)


def _to_call(arguments: ast.arguments) -> str:
    """The arguments of a call that passes all parameters on."""
    positional = [each.arg for each in arguments.args if each.arg != "self"]
    star = [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    named = [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    rest = [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ", ".join([*positional, *star, *named, *rest])


def _format(text: str, root: Path) -> str:
    """The text as ruff sorts its imports and formats it."""
    own = 'lint.isort.known-first-party = ["lakelog"]'
    for arguments in (["check", "--fix-only", "-q", "--select", "I,F401", "--config", own], ["format", "-q"]):
        command = [tool("ruff"), *arguments, "--stdin-filename", str(FOLDER / "written.py"), "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=root)
        text = done.stdout
    return text


def main() -> None:
    """Writes all files."""
    for path, text in generate(ROOT).items():
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
