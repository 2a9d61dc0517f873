"""How a table's schema changes (semantics 7.6). Pure.

Fields are known by ids that are never used twice, so old files and old snapshots keep their meaning: a column that is
dropped and added again is a new one. `find_mismatches` decides whether rows written under an earlier schema may still
enter.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as pt

from lakelog.errors import InvalidArgument
from lakelog.format.types.column_changes import (
    AddColumn,
    AllowNull,
    ColumnChange,
    ColumnPath,
    CommentColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetDefault,
    WidenColumn,
)
from lakelog.format.types.defaults import (
    INITIAL_DEFAULT_KEY,
    WRITE_DEFAULT_KEY,
    initial_default,
    to_default_text,
    write_default,
)
from lakelog.format.types.schema import FIELD_ID_KEY, TableSchema, assign_field_ids, field_id
from lakelog.format.types.sql_types import from_sql_type, quote_name, to_sql_type
from lakelog.format.types.types import canonical_type
from lakelog.format.types.widening import explain_refusal, is_widening, keeps_bucket, keeps_encoding

COMMENT_KEY: Final = b"comment"

ENCODED_SINCE_KEY: Final = b"lakelog.encoded-since"
"""In the metadata of a column whose values got another encoding by a widening: the first schema with that encoding."""

ADDED_SINCE_KEY: Final = b"lakelog.added-since"
"""In the metadata of a top-level column that was added to a table: the first schema with it. Older files lack it."""

_NEXT_ID_KEY: Final = b"lakelog.next-field-id"
"""In the metadata of a schema that followed another one."""

MAX_CHANGES: Final = 1000
"""Changes in one request."""


@dataclass(frozen=True)
class ColumnRoles:
    """Columns that a table depends on, by name: they may be renamed, but not dropped.

    Args:
        keys: Of the primary key.
        partitions: Of the partitions.
        buckets: Of the bucket key.
        options: By an option's key: the columns that it names.
    """

    keys: Sequence[str] = ()
    partitions: Sequence[str] = ()
    buckets: Sequence[str] = ()
    options: Mapping[str, Sequence[str]] | None = None

    def find(self, name: str) -> str | None:
        """What needs a column, for messages; None: nothing."""
        if name in self.keys:
            return "is part of the primary key"
        if name in self.partitions:
            return "is a partition column"
        if name in self.buckets:
            return "is part of the bucket key"
        named = [key for key, names in (self.options or {}).items() if name in names]
        return f"is named by option '{named[0]}'" if named else None


def evolve(schema: TableSchema, changes: Sequence[ColumnChange], roles: ColumnRoles) -> TableSchema:
    """Applies changes one after the other, and returns the next version of a schema. Pure.

    Args:
        schema: The present version.
        changes: At least one.
        roles: Columns that the table depends on, by their present names.

    Raises:
        InvalidArgument: A change is not possible; names the column, the types, and the statement that would do it.
    """
    _check_contradictions(changes)
    editor = _Editor(schema, roles, next_field_id(schema))
    for change in changes:
        editor.apply(change)
    return editor.result()


def find_renames(old: TableSchema, new: TableSchema) -> dict[str, str]:
    """New names of top-level columns by their old ones, where they differ. Pure."""
    names = {found: name for name, found in new.field_ids.items()}
    return {name: names[found] for name, found in old.field_ids.items() if found in names and names[found] != name}


def next_field_id(schema: TableSchema) -> int:
    """One more than the highest id that this or an earlier version of a schema has. Pure.

    A version that followed another one says so itself: the highest id may be of a column that was dropped.
    """
    known = (schema.arrow.metadata or {}).get(_NEXT_ID_KEY)
    return int(known) if known else 1 + max(found for field in schema.arrow for found in _ids(field))


def find_mismatches(written: TableSchema, newest: TableSchema) -> list[str]:
    """What of rows that were written under an earlier schema a newer one would lose or miss: a line a column. Pure.

    Rows still fit if columns were renamed, moved, widened, commented on or allowed to be NULL since, and if columns
    were added whose rows of before show the same as a write would store.
    """
    lines: list[str] = []
    _compare(list(written.arrow), list(newest.arrow), "", lines)
    return lines


def to_path(column: ColumnPath) -> tuple[str, ...]:
    """The parts of a path. Pure.

    Raises:
        InvalidArgument: It is empty, or no path.
    """
    parts = tuple(column.split(".")) if isinstance(column, str) else tuple(column)
    if not parts or not all(isinstance(part, str) and part for part in parts):
        raise InvalidArgument(
            f"{column!r:.100} is no column: give its name, the path of a field inside (address.zip), or the parts of a "
            "path as a list.",
            metadata={"field": "column"},
        )
    return parts


def find_field(schema: pa.Schema, path: tuple[str, ...]) -> pa.Field:
    """The column, or field inside of one, with this path. Pure.

    Raises:
        InvalidArgument: There is none; names the nearest ones.
    """
    fields = list(schema)
    for part in path[:-1]:
        fields = _children(fields[_find(fields, part, path)].type)
    return fields[_find(fields, path[-1], path)]


def to_type(given: pa.DataType | str, name: str) -> pa.DataType:
    """The canonical type of a column to add or widen. Pure.

    Raises:
        InvalidArgument: It is no type, or one that a table cannot have.
    """
    if isinstance(given, pa.DataType):
        return canonical_type(given, name)
    if not isinstance(given, str):
        raise InvalidArgument(
            f"The type of column '{name}' is {given!r:.100}: give a type of pyarrow, or the text of an SQL type, such "
            "as 'DECIMAL(10, 2)'.",
            metadata={"column": name},
        )
    try:
        return from_sql_type(given)
    except InvalidArgument as error:
        raise InvalidArgument(f"Column '{name}': {error.message}", metadata={"column": name}) from error


class _Editor:
    """A schema while it changes."""

    def __init__(self, schema: TableSchema, roles: ColumnRoles, next_id: int) -> None:
        self._schema = schema
        self._fields = list(schema.arrow)
        self._roles = roles
        self._next_id = next_id
        # Roles know the names before the request; another column may have got one of these meanwhile.
        self._old_names = {found: name for name, found in schema.field_ids.items()}

    def result(self) -> TableSchema:
        return TableSchema(
            self._schema.schema_id + 1,
            pa.schema(self._fields, {_NEXT_ID_KEY: str(self._next_id).encode()}),
            self._to_new_names(self._schema.primary_key),
            self._to_new_names(self._schema.partition_by),
        )

    def apply(self, change: ColumnChange) -> None:
        path = to_path(change.column)
        match change:
            case AddColumn():
                self._add(path, change)
            case DropColumn():
                self._check_unused(path)
                self._edit(path, lambda fields, place: fields[:place] + fields[place + 1 :])
                if not self._fields:
                    raise _refusal(path, "It is the table's last column. Drop the table, or add another column first")
            case RenameColumn():
                self._rename(path, change.new_name)
            case MoveColumn():
                if change.first == (change.after is not None):
                    raise _refusal(path, "Say where it goes: FIRST, or AFTER another column; one of them")
                self._edit(path, lambda fields, place: _moved(fields, place, change.first, change.after, path))
            case WidenColumn():
                self._replace(path, lambda field: self._widened(field, path, change.data_type))
            case AllowNull():
                if self._old_name(path) in self._schema.primary_key:
                    raise _refusal(path, "It is part of the primary key, whose columns are always NOT NULL")
                self._replace(path, _nullable(path))
            case CommentColumn():
                self._replace(path, lambda field: _with_metadata(field, COMMENT_KEY, change.comment.encode()))
            case SetDefault():
                self._replace(path, lambda field: _with_default(field, change.default, path))

    def _to_new_names(self, names: Sequence[str]) -> tuple[str, ...]:
        now = {field_id(field): field.name for field in self._fields}
        return tuple(now[self._schema.field_ids[name]] for name in names)

    def _old_name(self, path: tuple[str, ...]) -> str | None:
        """The name that a column had before the request; None: it is new, or inside of a column, or there is none."""
        found = next((field_id(field) for field in self._fields if (field.name,) == path), None)
        return None if found is None else self._old_names.get(found)

    def _role(self, path: tuple[str, ...]) -> str | None:
        old = self._old_name(path)
        return None if old is None else self._roles.find(old)

    def _check_unused(self, path: tuple[str, ...]) -> None:
        role = self._role(path)
        if role is None:
            return
        remedy = f"It can be renamed: ALTER TABLE ... RENAME COLUMN {quote_name(path[0])} TO ..."
        if "option" in role:
            remedy = "Change that option first (ALTER TABLE ... SET or RESET), or rename the column"
        raise _refusal(path, f"It {role}, and cannot be dropped. {remedy}", reason="COLUMN_IN_USE")

    def _add(self, path: tuple[str, ...], change: AddColumn) -> None:
        name, data_type = path[-1], to_type(change.data_type, path[-1])
        bare = pa.field(name, data_type, bool(change.nullable))
        if change.default is None and not change.nullable:
            raise _refusal(
                path,
                "It is NOT NULL and has no default, but rows are there already. Give a default (ADD COLUMN "
                f"{name} {to_sql_type(data_type)} NOT NULL DEFAULT ...), or let it take NULL",
            )
        numbered = assign_field_ids(pa.schema([bare]), self._next_id).field(0)
        self._next_id = 1 + max(_ids(numbered))
        metadata = dict(numbered.metadata)
        if len(path) == 1:
            metadata[ADDED_SINCE_KEY] = str(self._schema.schema_id + 1).encode()
        if change.comment:
            metadata[COMMENT_KEY] = change.comment.encode()
        if change.default is not None:
            metadata[INITIAL_DEFAULT_KEY] = metadata[WRITE_DEFAULT_KEY] = to_default_text(change.default, bare)
        added = numbered.with_metadata(metadata)

        def insert(fields: list[pa.Field]) -> list[pa.Field]:
            _check_free(fields, name, path)
            return _moved([*fields, added], len(fields), change.first, change.after, path)

        if len(path) == 1:
            self._fields = insert(self._fields)
            return

        def add_child(parent: pa.Field) -> pa.Field:
            if not pt.is_struct(parent.type):
                what = f"'{'.'.join(path[:-1])}' has type {to_sql_type(parent.type)}"
                raise _refusal(path, f"{what}, and only structs get fields")
            return parent.with_type(pa.struct(insert(_children(parent.type))))

        self._replace(path[:-1], add_child)

    def _rename(self, path: tuple[str, ...], new_name: str) -> None:
        if not isinstance(new_name, str) or not new_name:
            raise _refusal(path, f"Its new name is {new_name!r:.100}. Give a text that is not empty")

        def rename(fields: list[pa.Field], place: int) -> list[pa.Field]:
            _check_free(fields[:place] + fields[place + 1 :], new_name, path)
            return [*fields[:place], fields[place].with_name(new_name), *fields[place + 1 :]]

        self._edit(path, rename)

    def _widened(self, field: pa.Field, path: tuple[str, ...], given: pa.DataType | str) -> pa.Field:
        old, new = field.type, to_type(given, ".".join(path))
        role = self._role(path)
        if pt.is_nested(old) or pt.is_nested(new) or not is_widening(old, new):
            if old == new:
                raise _refusal(path, f"It has type {to_sql_type(old)} already. Leave the change out")
            raise _refusal(
                path,
                f"Its type {to_sql_type(old)} cannot become {to_sql_type(new)}. {explain_refusal(old, new)}"
                f"{'' if role else _other_way(path, old, new)}",
                reason="INCOMPATIBLE_TYPES",
                old=old,
                new=new,
            )
        name = self._old_name(path)
        in_buckets = name in self._roles.buckets
        ordered = name in self._roles.keys or name in self._roles.partitions
        if (ordered and not keeps_encoding(old, new)) or (in_buckets and not keeps_bucket(old, new)):
            raise _refusal(
                path,
                f"It {role}, so its type {to_sql_type(old)} cannot become {to_sql_type(new)}: "
                f"{'rows would belong to other buckets' if in_buckets else 'keys would be stored in another form'}. "
                "Make a new table with this type (CREATE TABLE ... AS SELECT)",
                reason="COLUMN_IN_USE",
                old=old,
                new=new,
            )
        widened = field.with_type(new)
        if not keeps_encoding(old, new):
            widened = _with_metadata(widened, ENCODED_SINCE_KEY, str(self._schema.schema_id + 1).encode())
        return _with_defaults_of_type(widened, field)

    # Along a path

    def _replace(self, path: tuple[str, ...], change: Callable[[pa.Field], pa.Field]) -> None:
        self._fields = _replace_in(self._fields, path, change, path)

    def _edit(self, path: tuple[str, ...], change: Callable[[list[pa.Field], int], list[pa.Field]]) -> None:
        """Changes the list of fields that a path's last part is in."""
        if len(path) == 1:
            self._fields = change(self._fields, _find(self._fields, path[0], path))
            return

        def edit_parent(parent: pa.Field) -> pa.Field:
            if not pt.is_struct(parent.type):
                raise _refusal(
                    path, f"It belongs to the type {parent.type}, in which nothing is renamed, moved or dropped"
                )
            children = _children(parent.type)
            changed = change(children, _find(children, path[-1], path))
            if not changed:
                raise _refusal(path, f"It is the last field of '{'.'.join(path[:-1])}'. Drop that instead")
            return parent.with_type(pa.struct(changed))

        self._replace(path[:-1], edit_parent)


def _replace_in(
    fields: list[pa.Field],
    path: tuple[str, ...],
    change: Callable[[pa.Field], pa.Field],
    whole: tuple[str, ...],
) -> list[pa.Field]:
    place = _find(fields, path[0], whole)
    field = fields[place]
    if len(path) == 1:
        changed = change(field)
    else:
        parts = _replace_in(_children(field.type), path[1:], change, whole)
        changed = field.with_type(_with_children(field.type, parts))
    return [*fields[:place], changed, *fields[place + 1 :]]


def _children(data_type: pa.DataType) -> list[pa.Field]:
    """The named parts of a type: fields of a struct, `element` of a list, `key` and `value` of a map."""
    if pt.is_struct(data_type):
        return [data_type.field(place) for place in range(data_type.num_fields)]
    if pt.is_map(data_type):
        return [data_type.key_field.with_name("key"), data_type.item_field.with_name("value")]
    return [data_type.value_field.with_name("element")] if pt.is_list(data_type) else []


def _with_children(data_type: pa.DataType, children: list[pa.Field]) -> pa.DataType:
    if pt.is_struct(data_type):
        return pa.struct(children)
    return pa.map_(*children) if pt.is_map(data_type) else pa.list_(children[0])


def _find(fields: Sequence[pa.Field], name: str, path: tuple[str, ...]) -> int:
    names = [field.name for field in fields]
    if name in names:
        return names.index(name)
    near = [each for each in names if each.casefold() == name.casefold()]
    near = near or difflib.get_close_matches(name[:200], names, n=3, cutoff=0.5) or names[:20]
    known = f"; near it are {', '.join(near)}. Upper and lower case count" if near else ""
    raise _refusal(path, f"There is no '{name[:200]}'{known}", reason="UNKNOWN_COLUMN")


def _check_free(fields: Sequence[pa.Field], name: str, path: tuple[str, ...]) -> None:
    taken = next((field.name for field in fields if field.name.casefold() == name.casefold()), None)
    if taken is not None:
        raise _refusal(
            path,
            f"The name '{name[:200]}' is taken{'' if taken == name else f' by {taken!r}: case does not count in SQL'}. "
            "Choose another one, or rename or drop the other column first",
            reason="DUPLICATE_COLUMN",
        )


def _moved(fields: list[pa.Field], place: int, first: bool, after: str | None, path: tuple[str, ...]) -> list[pa.Field]:
    """The fields with one of them at its new place; where nothing is said it stays."""
    if first and after is not None:
        raise _refusal(path, "It cannot be FIRST and AFTER another column. Give one of them")
    if not first and after is None:
        return fields
    others = fields[:place] + fields[place + 1 :]
    target = 0 if after is None else 1 + _find(others, after, (*path[:-1], after))
    return [*others[:target], fields[place], *others[target:]]


def _nullable(path: tuple[str, ...]) -> Callable[[pa.Field], pa.Field]:
    def change(field: pa.Field) -> pa.Field:
        if path[-1] == "key" and len(path) > 1:
            raise _refusal(path, "The keys of a map are never NULL")
        if field.nullable:
            raise _refusal(path, "It takes NULL already. Leave the change out")
        return field.with_nullable(True)

    return change


def _with_default(field: pa.Field, value: Any, path: tuple[str, ...]) -> pa.Field:
    if value is None and not field.nullable and WRITE_DEFAULT_KEY not in (field.metadata or {}):
        raise _refusal(path, "It has no default. Leave the change out")
    if len(path) > 1:
        raise _refusal(path, "Fields inside a column have no default for writes: rows give a column as a whole")
    return _with_metadata(
        field, WRITE_DEFAULT_KEY, b"" if value is None else to_default_text(value, field), value is None
    )


def _with_defaults_of_type(widened: pa.Field, before: pa.Field) -> pa.Field:
    """The field with its defaults as texts of the wider type."""
    for key, read in ((INITIAL_DEFAULT_KEY, initial_default), (WRITE_DEFAULT_KEY, write_default)):
        value = read(before)
        if value is not None:
            widened = _with_metadata(widened, key, to_default_text(value.cast(widened.type), widened))
    return widened


def _with_metadata(field: pa.Field, key: bytes, value: bytes, remove: bool | None = None) -> pa.Field:
    metadata = {name: text for name, text in (field.metadata or {}).items() if name != key}
    if not (value == b"" if remove is None else remove):
        metadata[key] = value
    return field.with_metadata(metadata)


def _ids(field: pa.Field) -> Iterator[int]:
    yield field_id(field)
    for place in range(field.type.num_fields):
        child = field.type.field(place)
        # The struct of a map's entries is no field of ours.
        if FIELD_ID_KEY in (child.metadata or {}):
            yield from _ids(child)
        else:
            for part in (child.type.field(number) for number in range(child.type.num_fields)):
                yield from _ids(part)


def _other_way(path: tuple[str, ...], old: pa.DataType, new: pa.DataType) -> str:
    """The statements that give a column any other type, if SQL can convert its values."""
    if len(path) > 1 or pt.is_nested(old) or pt.is_nested(new):
        return ""
    name, other = quote_name(path[0]), quote_name(f"{path[0]}_new")
    return (
        f". To convert its values: ALTER TABLE ... ADD COLUMN {other} {to_sql_type(new)}; UPDATE ... SET {other} = "
        f"CAST({name} AS {to_sql_type(new)}); ALTER TABLE ... DROP COLUMN {name}, RENAME COLUMN {other} TO {name}"
    )


def _check_contradictions(changes: Sequence[ColumnChange]) -> None:
    """Raises InvalidArgument for two changes of one kind of one column, of which one would be lost."""
    if not changes or len(changes) > MAX_CHANGES:
        raise InvalidArgument(
            f"There are {len(changes)} changes of columns; give 1 to {MAX_CHANGES} at once.",
            metadata={"field": "columns", "value": str(len(changes))},
        )
    seen: set[tuple[type, tuple[str, ...]]] = set()
    for change in changes:
        key = (type(change), to_path(change.column))
        if key in seen:
            raise _refusal(key[1], "It is changed twice in the same way at once. Give one of the two changes")
        seen.add(key)


def _compare(written: list[pa.Field], newest: list[pa.Field], prefix: str, lines: list[str]) -> None:
    by_id = {field_id(field): field for field in newest}
    known = set()
    for field in written:
        known.add(field_id(field))
        name = f"{prefix}{field.name}"
        now = by_id.get(field_id(field))
        if now is None:
            lines.append(f"{name}: was dropped, and its values would be lost")
        elif pt.is_nested(field.type) and pt.is_nested(now.type):
            _compare(_children(field.type), _children(now.type), f"{name}.", lines)
    for field in newest:
        if field_id(field) in known:
            continue
        metadata = field.metadata or {}
        if metadata.get(INITIAL_DEFAULT_KEY) != metadata.get(WRITE_DEFAULT_KEY):
            lines.append(f"{prefix}{field.name}: was added, and writes store another default than older rows show")


def _refusal(
    path: tuple[str, ...],
    why: str,
    reason: str = "INVALID_COLUMN_CHANGE",
    old: pa.DataType | None = None,
    new: pa.DataType | None = None,
) -> InvalidArgument:
    metadata = {"column": ".".join(path)[:500]}
    if old is not None and new is not None:
        metadata |= {"type": to_sql_type(old)[:200], "new_type": to_sql_type(new)[:200]}
    return InvalidArgument(
        f"Column '{'.'.join(path)[:500]}' cannot be changed so. {why}.", reason=reason, metadata=metadata
    )
