"""A pipeline's table, and how rows become rows of it, as the table is now: its columns may change while it runs."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lakelog.client.column_merge import merge_columns
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableInfo
from lakelog.records.inferred_types import leave_out_untyped

from ..pipeline.spec import Evolution, Mode, Pipeline
from .coercion import Coercion
from .new_columns import NEW_COLUMN


class Target:
    """The table of a pipeline.

    Args:
        pipeline: The pipeline.
        metastore: Knows the table.
        info: The table.
        fit: Makes the way in which rows become rows of a table; raises InvalidArgument if they cannot.
    """

    def __init__(
        self, pipeline: Pipeline, metastore: Metastore, info: TableInfo, fit: Callable[[TableInfo], Coercion]
    ) -> None:
        self._pipeline = pipeline
        self._metastore = metastore
        self._fit = fit
        self.info = info
        self.coercion = fit(info)
        self.ignored: tuple[str, ...] = ()
        """Columns of the last batch that the table does not have, where the pipeline leaves such out."""

    def refresh(self) -> None:
        """Takes over what has changed of the table; blocks.

        Raises:
            InvalidArgument: The pipeline does not fit the table any more; says why.
            NotFound: It was dropped.
        """
        self._take(self._metastore.get_table_by_uuid(self.info.table_uuid))

    @property
    def looks_ahead(self) -> bool:
        """Whether the columns of a batch have to be known before it is read."""
        evolution, source = self._pipeline.evolution, self._pipeline.source
        if self._pipeline.mode is Mode.DELETE:
            return False
        # Other formats' readers notice new columns themselves.
        is_silent = source.format.value == "debezium-json"
        return evolution in (Evolution.ADD_COLUMNS, Evolution.IGNORE) or (evolution is Evolution.FAIL and is_silent)

    def add_columns(self, found: pa.Schema, *, are_typed: bool) -> None:
        """Adds the columns of a source that the table lacks, or notes that they are ignored; blocks. Idempotent.

        Args:
            found: The source's columns.
            are_typed: Whether the source itself says the types, so that those of known columns count as well.

        Raises:
            InvalidArgument: They cannot be added.
        """
        names = {source.name: name for name, source in self.coercion.sources.items()}
        unknown = pa.schema([each for each in found if each.name not in self.coercion.source_names])
        if self._pipeline.evolution is Evolution.IGNORE:
            self.ignored = tuple(unknown.names)
            return
        new = leave_out_untyped(unknown)
        self._check_case(new)
        known = [each.with_name(names[each.name]) for each in found if are_typed and each.name in names]
        self._take(merge_columns(self._metastore, self.info, pa.schema([*known, *new])))

    def _check_case(self, new: pa.Schema) -> None:
        known = {name.casefold(): name for name in self.info.schema.arrow.names}
        twin = next((name for name in new.names if name.casefold() in known), None)
        if twin is not None:
            raise InvalidArgument(
                f"Pipeline '{self._pipeline.name}': the source has a column '{twin[:100]}', and table {self.info.name} "
                f"has '{known[twin.casefold()]}', which is the same name in SQL. Say under source.columns where that "
                "one comes from.",
                reason=NEW_COLUMN,
                metadata={"column": twin[:100], "table": str(self.info.name)},
            )

    def _take(self, info: TableInfo) -> None:
        if info.schema.schema_id != self.info.schema.schema_id or info.options != self.info.options:
            self.coercion = self._fit(info)
        self.info = info
