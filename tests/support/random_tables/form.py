"""Tables of any form: columns of any types, keys, partitions, and options that go with them."""

from __future__ import annotations

from random import Random

import pyarrow as pa

from tests.support.random_tables.columns import ALL_TYPES, KEY_TYPES, ColumnType, TableColumn

_NAMES = ("id", "Größe", "a b", "select", "x.y", "value", "_1", "Order", "ts`", "k-k", "名", "p%q", "c12", "last one")
_STRING = next(each for each in KEY_TYPES if pa.types.is_string(each.data_type))


class TableForm:
    """What a random table looks like.

    Args:
        random: Decides everything.
    """

    producers: tuple[str, ...] = ("none", "none", "input", "lookup", "lookup")
    keyed_share: float = 0.65

    def __init__(self, random: Random) -> None:
        self.random = random
        self._draw_columns()
        self._draw_options()

    def _draw_columns(self) -> None:
        random = self.random
        names = random.sample(_NAMES, len(_NAMES))
        has_key = random.random() < self.keyed_share
        parts = random.choice((0, 0, 1, 1, 2))
        keys = random.choice((1, 1, 2, 3)) if has_key else 0
        self.columns: list[TableColumn] = []

        def add(column_type: ColumnType, nullable: bool) -> str:
            self.columns.append(TableColumn(names[len(self.columns)], column_type, nullable))
            return self.columns[-1].name

        self.partition_by = [add(random.choice(KEY_TYPES), not has_key and random.random() < 0.7) for _ in range(parts)]
        own = [add(random.choice(KEY_TYPES), False) for _ in range(keys)]
        self.key = [*self.partition_by, *own] if has_key else []
        random.shuffle(self.key)
        self.sequence = []
        self.keeps_first = has_key and random.random() < 0.2
        if has_key and not self.keeps_first and random.random() < 0.45:
            ordered = [each for each in ALL_TYPES if each.is_ordered]
            self.sequence = [
                add(random.choice(ordered), random.random() < 0.8) for _ in range(random.choice((1, 1, 2)))
            ]
        self.kind_column = ""
        if has_key and random.random() < 0.15:
            self.kind_column = add(_STRING, True)
        for _ in range(random.randrange(1, 5)):
            add(random.choice(ALL_TYPES), random.random() < 0.8)
        self.own_key = [name for name in self.key if name not in self.partition_by]
        random.shuffle(self.columns)
        self.by_name = {column.name: column for column in self.columns}
        # Few different values, so that keys and partitions meet again.
        self.pools = {
            name: [self.by_name[name].draw(random, 0.3) for _ in range(3 if name in self.partition_by else 6)]
            for name in dict.fromkeys((*self.key, *self.partition_by))
        }

    def _draw_options(self) -> None:
        random = self.random
        options: dict[str, str] = {}
        self.producer = "none"
        self.bucket_key: list[str] = []
        if self.key:
            options["bucket"] = str(random.choice((1, 1, 2, 4)))
            if random.random() < 0.3:
                options["bucket-key"] = ",".join(random.sample(self.own_key, 1))
            if self.keeps_first:
                options |= {"merge-engine": "first-row", "ignore-delete": "true"}
            elif self.sequence:
                options["sequence.field"] = ",".join(self.sequence)
                if random.random() < 0.4:
                    options["sequence.field.sort-order"] = random.choice(("asc", "desc"))
            if self.kind_column:
                options["rowkind.field"] = self.kind_column
            if random.random() < 0.2:
                options[random.choice(("ignore-delete", "ignore-update-before"))] = "true"
            self.producer = random.choice(self.producers)
            if self.keeps_first and self.producer == "input":
                self.producer = "none"
            if self.producer != "none":
                options["changelog-producer"] = self.producer
            if self.producer == "lookup" and not self.keeps_first and random.random() < 0.4:
                options["changelog-producer.row-deduplicate"] = "true"
                names = [name for name in self.by_name if name not in self.key and "," not in name]
                if random.random() < 0.5:
                    options["changelog-producer.row-deduplicate-ignore-fields"] = random.choice(names)
        elif random.random() < 0.5:
            possible = [column.name for column in self.columns if column.type.is_key and "," not in column.name]
            if possible:
                self.bucket_key = random.sample(possible, 1)
                options |= {"bucket": str(random.choice((1, 3))), "bucket-key": self.bucket_key[0]}
        if random.random() < 0.3:
            options["write-buffer-size"] = random.choice(("1 kb", "4 kb", "64 kb"))
        if random.random() < 0.3:
            options["target-file-size"] = random.choice(("1 kb", "16 kb"))
        if random.random() < 0.3:
            options["file.compression"] = random.choice(("snappy", "lz4", "none"))
        if random.random() < 0.5:
            options["precommit-compact"] = "true"
        self.options = options
