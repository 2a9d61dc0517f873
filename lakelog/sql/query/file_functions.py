"""`read_parquet`, `read_csv` and `read_json` in a query: pyarrow's datasets read the files as tables.

DuckDB scans a dataset while the query runs: only the columns that it needs, without the row groups of Parquet files
that its conditions rule out, in bounded memory.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
from pyarrow import fs
from sqlglot import exp

from lakelog.errors import InvalidArgument, LakelogError
from lakelog.storage.objects.source_paths import open_paths
from lakelog.storage.objects.stores import Stores

_OPTIONS: Final[Mapping[str, Mapping[str, type]]] = {
    "read_parquet": {},
    "read_csv": {"delim": str, "header": bool, "all_varchar": bool},
    "read_json": {},
}
_BATCH_ROWS: Final = 32 * 1024
_AHEAD: Final = 4
"""The number of batches of a file that are read before DuckDB requests them."""

_BUFFER_BYTES: Final = 1 << 20
"""The buffer for a column chunk of a local file."""

_EXAMPLE: Final = "read_csv('exports/*.csv', delim => ';')"


@dataclass(frozen=True)
class FileUse:
    """One place where a query reads files.

    Args:
        relation: The name of the relation that stands for it in `SelectPlan.sql`.
        function: `read_parquet`, `read_csv` or `read_json`.
        paths: The paths as they were written.
        options: The options by name.
        node: Its place in the tree.
    """

    relation: str
    function: str
    paths: tuple[str, ...]
    options: Mapping[str, Any]
    node: exp.Table

    def __str__(self) -> str:
        return f"{self.function}({', '.join(repr(path) for path in self.paths)[:200]})"


@dataclass(frozen=True)
class OpenFiles:
    """Files that a query reads."""

    use: FileUse
    dataset: ds.Dataset

    def find_bad(self) -> InvalidArgument | None:
        """Reads the files until one fails; returns the error with its name, for failures without one; None: none."""
        for fragment in self.dataset.get_fragments():
            try:
                for _ in fragment.to_batches(schema=self.dataset.schema, batch_readahead=0):
                    pass
            except (pa.ArrowException, OSError) as error:
                return _to_unreadable(self.use, fragment.path, error)
        return None


def parse_file_use(node: exp.Table, relation: str) -> FileUse:
    """Reads an expression of a query that stands for a table and is no name. Pure.

    Raises:
        InvalidArgument: It is no such function, or its arguments are not possible.
    """
    call = node.this
    if isinstance(call, exp.Dot):
        raise InvalidArgument(
            f"The query cannot be run: {node.sql('spark')[:80]} has more than three parts. A table's name is "
            "catalog.database.table.",
            reason="SQL_SYNTAX",
        )
    name = call.name.lower() if isinstance(call, exp.Anonymous) else str(call.sql_name()).lower()
    if not isinstance(call, exp.Func) or name not in _OPTIONS:
        near = difflib.get_close_matches(name, _OPTIONS, n=1)
        meant = f" Is {near[0]} meant?" if near else ""
        raise _invalid(
            f"{node.sql('spark')[:80]} is nothing that a query can read. Read from tables, or by "
            f"{', '.join(_OPTIONS)}.{meant}"
        )
    arguments = [*([call.this] if isinstance(call, exp.ReadCSV) else []), *call.expressions]
    first, *others = arguments or [None]
    texts = first.expressions if isinstance(first, exp.Array) else [first]
    if not texts or not all(isinstance(text, exp.Literal) and text.is_string and text.name for text in texts):
        raise _invalid(f"{name} takes a path in quotes, or an array of them, as in {_EXAMPLE}.")
    options: dict[str, Any] = {}
    for argument in others:
        key, value = _read_option(name, argument)
        if key in options:
            raise _invalid(f"{name} has {key} twice. Give it once.")
        options[key] = value
    return FileUse(relation, name, tuple(text.name for text in texts), options, node)


def _read_option(function: str, argument: exp.Expr) -> tuple[str, Any]:
    known = _OPTIONS[function]
    key = argument.this.name.lower() if isinstance(argument, exp.Kwarg | exp.EQ) else ""
    kind = known.get(key)
    if kind is None:
        has = f"its options are {', '.join(known)}" if known else "it has no options"
        raise _invalid(
            f"{function} does not take {argument.sql('spark')[:80]}; {has}. They are written as in {_EXAMPLE}."
        )
    value = argument.expression
    if kind is bool and isinstance(value, exp.Boolean):
        return key, bool(value.this)
    if kind is str and isinstance(value, exp.Literal) and value.is_string and len(value.name.encode()) == 1:
        return key, value.name
    wanted = "true or false" if kind is bool else "one character in quotes"
    raise _invalid(f"{function}: {key} is {value.sql('spark')[:80]}, but takes {wanted}.")


def open_files(use: FileUse, stores: Stores) -> OpenFiles:
    """Opens the files of a place in a query; reads of each file only what gives its columns.

    Raises:
        NotFound: There are no such files.
        InvalidArgument: One cannot be read, or has other columns than the first.
        LakelogError: Their store cannot be reached.
    """
    filesystem, files = open_paths(use.paths, stores)
    path, file_format = files[0], _format(use, is_local=isinstance(filesystem, fs.LocalFileSystem))
    try:
        schema = _to_schema(use, ds.dataset([path], filesystem=filesystem, format=file_format).schema)
        whole = ds.dataset(files, schema=schema, filesystem=filesystem, format=file_format)
        dataset = _BoundedDataset(list(whole.get_fragments()), schema, whole.format, filesystem)
        names = set(schema.names)
        for fragment in dataset.get_fragments():
            path = fragment.path
            given = set(fragment.physical_schema.names)
            if given != names and use.options.get("header", True):
                raise _to_unlike(use, files[0], path, names, given)
    except (pa.ArrowException, OSError) as error:
        raise _to_unreadable(use, path, error) from error
    return OpenFiles(use, dataset)


class _BoundedDataset(ds.FileSystemDataset):  # type: ignore[misc]
    """Files that are scanned in bounded memory.

    SUBTLE: a scan with threads reads up to 1 GiB ahead of a slow query, with any settings. One without threads reads on
    demand, and is not slower, since the query runs in parallel.
    """

    def scanner(self, **settings: Any) -> ds.Scanner:
        """DuckDB calls it with the columns and the conditions that it needs."""
        return super().scanner(
            batch_size=_BATCH_ROWS, batch_readahead=_AHEAD, fragment_readahead=1, use_threads=False, **settings
        )


def _format(use: FileUse, *, is_local: bool) -> ds.FileFormat:
    if use.function == "read_parquet":
        if not is_local:
            # Whole column chunks: few requests, and the memory of a file's needed columns.
            return ds.ParquetFileFormat(pre_buffer=True)
        return ds.ParquetFileFormat(pre_buffer=False, use_buffered_stream=True, buffer_size=_BUFFER_BYTES)
    if use.function == "read_json":
        return ds.JsonFileFormat()
    return ds.CsvFileFormat(
        parse_options=pa_csv.ParseOptions(delimiter=use.options.get("delim", ","), newlines_in_values=True),
        read_options=pa_csv.ReadOptions(autogenerate_column_names=not use.options.get("header", True)),
        # As in `lakelog insert`: only an empty text without quotes is NULL, and no text such as NA.
        convert_options=pa_csv.ConvertOptions(
            null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


def _to_schema(use: FileUse, found: pa.Schema) -> pa.Schema:
    """The columns as they are read: if the beginning of a file has no values for a column, its type is text."""
    texts = bool(use.options.get("all_varchar"))
    repeated = next((name for name in found.names if found.names.count(name) > 1), None)
    if repeated is not None:
        raise _invalid(f"{use} has two columns '{repeated}'. Name each once.")
    return pa.schema(
        [field.with_type(pa.string()) if texts or pa.types.is_null(field.type) else field for field in found]
    )


def _to_unlike(use: FileUse, first: str, path: str, names: set[str], given: set[str]) -> InvalidArgument:
    what = [
        f"{verb} {', '.join(sorted(columns)[:20])}"
        for verb, columns in (("leaves out", names - given), ("has besides", given - names))
        if columns
    ]
    return InvalidArgument(
        f"The query cannot be run: {path} has other columns than {first}: it {' and '.join(what)}. Read files with "
        f"different columns by separate calls of {use.function}, and name the columns.",
        reason="SCHEMA_MISMATCH",
        metadata={"path": path},
    )


def _to_unreadable(use: FileUse, path: str, error: Exception) -> InvalidArgument:
    if isinstance(error, LakelogError):
        raise error
    first = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    remedy = ""
    if "conversion error" in first:
        remedy = (
            " The beginning of the first file decides the types; all_varchar => true reads texts, which CAST converts."
        )
    return InvalidArgument(
        f"The query cannot be run: {use.function} cannot read {path}: {first}.{remedy}",
        reason="QUERY_FAILED",
        metadata={"path": path},
    )


def _invalid(explanation: str) -> InvalidArgument:
    return InvalidArgument(f"The query cannot be run: {explanation}", reason="SQL_SYNTAX")
