"""A random table that is compacted, tagged, and rolled back to earlier states of it."""

from __future__ import annotations

from lakelog.options.declared.tables import STREAMING_READ_OVERWRITE
from lakelog.sdk.catalog import Catalog
from tests.property.tables.compacted import CompactedHistory
from tests.support.random_tables.conditions import Row
from tests.support.random_tables.history import sorted_rows
from tests.support.random_tables.keyed_changes import check_keyed_changes
from tests.support.random_tables.model import Record, SnapshotModel


class RolledBackHistory(CompactedHistory):
    """A history in which earlier states come back.

    Args:
        catalog: Where the table is made.
        name: Its full name.
        seed: Decides everything.
    """

    def __init__(self, catalog: Catalog, name: str, seed: int) -> None:
        super().__init__(catalog, name, seed)
        self.begin()

    def begin(self) -> None:
        """Nothing was tagged or rolled back yet."""
        self.tags: dict[str, int] = {}
        self.rollbacks = 0
        # What the model holds at each snapshot; the rows that were taken away among it, since they beat late ones.
        self._states: list[list[Record]] = []

    def step(self) -> None:
        """One of a history's steps, and perhaps tags that come and go, and a rollback."""
        super().step()
        self._note_states()
        random = self.random
        if self.model.snapshots and random.random() < 0.4:
            name = f"v{random.randrange(10**6)}"
            self.tags[name] = random.choice(self.targets())
            assert self.table.tags.create(name, self.tags[name]) == self.tags[name]
        if self.tags and random.random() < 0.15:
            gone = random.choice([*self.tags])
            self.table.tags.delete(gone)
            del self.tags[gone]
        if self.model.snapshots and random.random() < 0.4:
            self._roll_back()

    def targets(self) -> list[int]:
        """Snapshots that can be tagged and rolled back to."""
        return [*range(1, len(self.model.snapshots) + 1)]

    def rows_now(self, snapshot_id: int) -> list[Row]:
        """The rows of a snapshot, with the columns that the table has now."""
        return self.model.snapshots[snapshot_id - 1].rows

    def _note_states(self) -> None:
        self._states += [list(self.model.records)] * (len(self.model.snapshots) - len(self._states))

    def _roll_back(self) -> None:
        random, model = self.random, self.model
        targets: list[int | str] = [random.choice(self.targets()), *self.tags]
        target = random.choice(targets)
        snapshot_id = self.tags[target] if isinstance(target, str) else target
        writer = random.choice((None, "w1"))
        identifier = 0
        if writer is not None:
            identifier = self.identifiers[writer] = self.identifiers[writer] + 1
        result = self.table.rollback_to(
            target, writer=writer, identifier=None if writer is None else identifier, properties={"to": str(target)}
        )
        assert not result.already_applied
        if writer is not None:
            model.done.setdefault(writer, {})[identifier] = result.snapshot_id
        if result.snapshot_id is None:
            # All of its files were there; compactions may have begun and been undone since.
            assert sorted_rows(model.rows()) == sorted_rows(self.rows_now(snapshot_id))
            return
        self.rollbacks += 1
        assert result.snapshot_id == len(model.snapshots) + 1
        model.records = list(self._states[snapshot_id - 1])
        watermark = model.snapshots[-1].watermark
        properties = {"to": str(target)}
        rows = model.rows()
        model.snapshots.append(
            SnapshotModel("OVERWRITE", rows, [], [], set(), writer, identifier, watermark, properties)
        )
        self._note_states()

    def check_tags(self) -> None:
        """Each tag shows what its snapshot held."""
        listed = self.table.tags.list().to_pylist()
        assert {each["name"]: each["snapshot_id"] for each in listed} == self.tags
        for name, snapshot_id in self.tags.items():
            found = self.table.scan(tag=name).to_arrow().to_pylist()
            assert sorted_rows(found) == sorted_rows(self.model.snapshots[snapshot_id - 1].rows)

    def check_shown_overwrites(self) -> None:
        """Where streams show what overwrites changed, they show the difference, whatever files are the same in both."""
        if not self.key:
            return
        self.table.alter(set={STREAMING_READ_OVERWRITE.key: "true"})
        snapshots = self.model.snapshots
        for number, model in enumerate(snapshots, 1):
            if model.kind != "OVERWRITE":
                continue
            found = self.table.changes(number - 1, number).to_arrow().to_pylist()
            wanted = self._differences(snapshots[number - 2].rows if number > 1 else [], model.rows)
            reported = f"{self!r}: what snapshot {number} overwrote"
            assert sorted_rows(found) == sorted_rows([row | {"_snapshot_id": number} for row in wanted]), reported

    def _differences(self, before: list[Row], rows: list[Row]) -> list[Row]:
        old, new = ({self.model.key_of(row): row for row in each} for each in (before, rows))
        found: list[Row] = []
        for key in old.keys() | new.keys():
            if sorted_rows([old[key]] if key in old else []) == sorted_rows([new[key]] if key in new else []):
                continue
            is_update = key in old and key in new
            if key in old:
                found.append(old[key] | {"_row_kind": "-U" if is_update else "-D"})
            if key in new:
                found.append(new[key] | {"_row_kind": "+U" if is_update else "+I"})
        return found


def check(history: RolledBackHistory) -> None:
    for _ in range(history.random.randrange(6, 14)):
        history.step()
        history.check_newest()
    for number in range(1, len(history.model.snapshots) + 1):
        assert history.table.scan(snapshot_id=number).count() == len(history.model.snapshots[number - 1].rows)
    history.check_reads(8)
    history.check_tags()
    history.check_listing()
    history.check_order()
    history.check_changes()
    check_keyed_changes(history, 4)
    history.check_shown_overwrites()
