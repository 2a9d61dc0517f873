"""Which groups of a compaction are still valid when it takes effect, and what of them is committed. Pure.

A compaction works for minutes on its plan, and never blocks other writers meanwhile. So each of its groups is judged by
itself under the head's lock: it is committed if all files that it names still exist and no row would change its place
among others. Otherwise it is dropped with a reason. A dropped group is an outcome and not an error: the compactor plans
again from the current state. A request that could not be right in any state of the table is refused as a whole.

Objectives, which conflict: no read changes (semantics 6.5); minutes of work are not lost for unrelated changes; the
head is not locked for long. So files are judged by their key ranges, never by their rows; this may drop a group that
has gaps where another file's keys are.

Invariants: rows stay in the order of their bucket (`level_order.py`); rows without a key are neither lost nor doubled,
and rows with one never become more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lakelog.errors import InvalidArgument
from lakelog.format.commit.facts import CompactionFacts, FileFacts, OrderKey, TableHead
from lakelog.format.commit.level_order import BucketOrder, Span, find_in_the_way, find_meeting, find_overlap
from lakelog.format.commit.request import (
    BUCKET_COUNT_CHANGED,
    INPUT_GONE,
    LEVEL_TAKEN,
    OUT_OF_ORDER,
    PRODUCER_CHANGED,
    SCHEMA_NEWER,
    TOLD_BY_OTHERS,
    BucketRef,
    Change,
    CompactionGroup,
    DroppedGroup,
    RemoveFiles,
)
from lakelog.format.tables.files import DataFile


@dataclass(frozen=True)
class VectoredFile:
    """A file that stays as it is, and gets another deletion vector.

    Args:
        file: The file as it is.
        deletion_vector_path: The path that its new entry names.
        delete_count: That of its new entry; None: as it is.
    """

    file: FileFacts
    deletion_vector_path: str | None
    delete_count: int | None = None


@dataclass(frozen=True)
class Rebased:
    """The part of a change that takes effect.

    Args:
        change: The change with the files of the valid groups, and all files that these remove.
        order_keys: The inherited places of its `add_files`; empty: they get places of their own.
        moved: Files that get a level, with the level.
        vector_files: Files that get a deletion vector, in the order of their new ids; a compaction has no others then.
        dropped: The groups that are not valid.
    """

    change: Change
    order_keys: tuple[OrderKey, ...] = ()
    moved: tuple[tuple[FileFacts, int], ...] = ()
    vector_files: tuple[VectoredFile, ...] = ()
    dropped: tuple[DroppedGroup, ...] = ()


def rebase_compaction(change: Change, head: TableHead, facts: CompactionFacts) -> Rebased:
    """Judges each group of a compaction, and keeps the valid ones. Pure.

    Args:
        change: The compaction.
        head: The table's head.
        facts: The files that it names, and those of its buckets.

    Raises:
        InvalidArgument: A group could not be valid at any time: it has several buckets, a level that the table does not
            have, more rows than its inputs, or files that overlap on its level.
    """
    if change.bucket_count != head.bucket_count:
        return drop_all(change, head)
    known = {file.file_id: file for file in facts.files}
    groups = list(_groups(change, known, head.next_file_id))
    buckets = _split_by_bucket(facts.live, groups)
    accepted: list[_Group] = []
    dropped: list[DroppedGroup] = []
    for group in groups:
        _check_shape(group, head, facts.keyed)
        around = buckets.get(group.wanted.bucket)
        reason = _find_reason(group, change, head, facts, around)
        if reason is not None:
            dropped.append(reason)
            continue
        accepted.append(group)
        if around is not None:
            around.remove(group.wanted.inputs)
            around.move(group.wanted.moves, group.wanted.level)
            around.add(range(group.first_id, group.first_id + len(group.outputs)))
    gone = tuple(file.file_id for group in accepted for file in (*group.inputs, *group.moves))
    return Rebased(
        replace(
            change,
            add_files=tuple(file for group in accepted for file in group.outputs),
            changelog_files=tuple(file for group in accepted for file in group.changelog),
            remove=RemoveFiles(gone) if gone else None,
            groups=tuple(_carry_baseline(group, facts.baseline) for group in accepted),
        ),
        order_keys=tuple(group.order_key for group in accepted for _ in group.outputs),
        moved=tuple((file, group.wanted.level) for group in accepted for file in group.moves),
        dropped=tuple(dropped),
    )


def _carry_baseline(group: _Group, baseline: Collection[int]) -> CompactionGroup:
    """Moves the baseline to the outputs of a group that only rewrites baseline files, since no row changed."""
    own = (*group.wanted.inputs, *group.wanted.moves)
    if group.wanted.emits_changelog or not (own and set(own) <= set(baseline)):
        return group.wanted
    return replace(group.wanted, emits_changelog=True, baseline=own)


def _split_by_bucket(live: Sequence[FileFacts], groups: Sequence[_Group]) -> dict[BucketRef, BucketOrder]:
    """The live files and those the groups would add, by bucket; empty if rows have no order."""
    now: dict[BucketRef, list[FileFacts]] = {}
    for file in live:
        now.setdefault(file.bucket_ref, []).append(file)
    later: dict[BucketRef, list[FileFacts]] = {}
    for group in groups:
        if group.inputs:
            later.setdefault(group.wanted.bucket, []).extend(group.written())
    return {bucket: BucketOrder(files, later.get(bucket, ())) for bucket, files in now.items()}


def drop_all(change: Change, head: TableHead) -> Rebased:
    """Drops all groups of a compaction that was planned for another number of buckets. Pure."""
    said = f"It was written for {change.bucket_count} buckets, but {head.name} has {head.bucket_count} by now."
    dropped = tuple(DroppedGroup(number, BUCKET_COUNT_CHANGED, said) for number in range(len(change.groups)))
    return Rebased(replace(change, add_files=(), changelog_files=(), remove=None, groups=()), dropped=dropped)


@dataclass(frozen=True)
class _Group:
    """A group with all facts about its files.

    Args:
        number: Its index among the change's groups.
        wanted: The group itself.
        inputs: Its inputs that exist.
        moves: Its moves that exist.
        outputs: The files that it wrote.
        changelog: The changes that it emits.
        first_id: An id above those of all existing files, for its outputs.
    """

    number: int
    wanted: CompactionGroup
    inputs: Sequence[FileFacts]
    moves: Sequence[FileFacts]
    outputs: Sequence[DataFile]
    changelog: Sequence[DataFile]
    first_id: int

    @cached_property
    def order_key(self) -> OrderKey:
        """The place that its outputs inherit."""
        return max(file.order_key for file in self.inputs)

    def arriving(self) -> Iterator[FileFacts]:
        """Its outputs and moves as they are live after it."""
        yield from self.written()
        for moved in self.moves:
            yield replace(moved, level=self.wanted.level)

    def written(self) -> Iterator[FileFacts]:
        """Its outputs as they are live after it."""
        for number, file in enumerate(self.outputs):
            yield FileFacts(
                self.first_id + number,
                file.path,
                file.partition,
                file.bucket,
                self.order_key,
                file.level,
                file.row_count,
                file.size_bytes,
                file.min_key,
                file.max_key,
                file.schema_id,
            )

    def spans(self) -> list[Span]:
        """Where its rows are and where they move to."""
        before = [Span(file, (file.order_key, file.file_id), self.order_key) for file in self.inputs]
        return before + [Span(file, (file.order_key, file.file_id), file.order_key) for file in self.arriving()]


def _groups(change: Change, known: Mapping[int, FileFacts], first_id: int) -> Iterator[_Group]:
    outputs = changelogs = 0
    for number, group in enumerate(change.groups):
        yield _Group(
            number,
            group,
            [known[file_id] for file_id in group.inputs if file_id in known],
            [known[file_id] for file_id in group.moves if file_id in known],
            change.add_files[outputs : outputs + group.output_count],
            change.changelog_files[changelogs : changelogs + group.changelog_count],
            first_id + outputs,
        )
        outputs += group.output_count
        changelogs += group.changelog_count


def _check_shape(group: _Group, head: TableHead, keyed: bool) -> None:
    """Checks facts that never change about files: if they are wrong now, a later try would be wrong as well."""
    _check_bucket(group, head)
    _check_level(group, head, keyed)
    if len(group.inputs) == len(group.wanted.inputs):
        _check_rows(group, head, keyed)
        _check_overlap(group, head, keyed)


def _check_bucket(group: _Group, head: TableHead) -> None:
    wanted = group.wanted.bucket
    for file in (*group.inputs, *group.moves):
        if file.bucket_ref != wanted:
            same = "the" if file.partition == wanted.partition else "another"
            raise _refused(
                group,
                head,
                f"names '{file.path}', which is in bucket {file.bucket} of {same} partition, not in the group's bucket "
                f"{wanted.bucket}. Make a group for each bucket.",
                "GROUP_OF_SEVERAL_BUCKETS",
            )


def _check_level(group: _Group, head: TableHead, keyed: bool) -> None:
    level = group.wanted.level
    if keyed is not (level > 0):
        remedy = (
            "Level 0 is for what writers write; bring it to a level from 1 on."
            if keyed
            else "Without a primary key there are no levels; leave it 0."
        )
        raise _refused(group, head, f"has level {level}. {remedy}", "WRONG_LEVEL")
    for file in group.moves:
        if file.level >= level:
            raise _refused(
                group,
                head,
                f"moves '{file.path}', which is at level {file.level}, to level {level}. Files only move to higher "
                "levels; leave it out.",
                "WRONG_LEVEL",
            )


def _check_rows(group: _Group, head: TableHead, keyed: bool) -> None:
    before = sum(file.row_count - (0 if keyed else file.delete_count) for file in group.inputs)
    after = sum(file.row_count for file in group.outputs)
    if after > before or (after < before and not keyed):
        rule = "none may be added" if keyed else "without a primary key all stay that no commit has removed"
        raise _refused(
            group,
            head,
            f"writes {after} rows in the place of {before}. A compaction changes no row, so {rule}; commit other data "
            "as APPEND or OVERWRITE.",
            "COMPACTION_CHANGES_ROWS",
        )


def _check_overlap(group: _Group, head: TableHead, keyed: bool) -> None:
    if not keyed:
        return
    found = find_overlap(list(group.arriving()))
    if found is not None:
        one, other = found
        raise _refused(
            group,
            head,
            f"brings '{one.path}' and '{other.path}' to level {group.wanted.level}, and their key ranges overlap. A "
            "level is one sorted run: merge them, and give each output its bounds.",
            "OUTPUTS_OVERLAP",
        )
    # A delete among the inputs that hides a row of a moved file would no longer hide it.
    met = find_meeting(group.moves, group.inputs)
    if met is not None:
        raise _refused(
            group,
            head,
            f"moves '{met.path}', whose key range overlaps with its inputs'. Only what overlaps nothing moves; take it "
            "as an input.",
            "MOVE_OVERLAPS",
        )


def _find_reason(
    group: _Group, change: Change, head: TableHead, facts: CompactionFacts, around: BucketOrder | None
) -> DroppedGroup | None:
    keyed = facts.keyed
    present = {file.file_id: file for file in (*group.inputs, *group.moves)}
    gone = find_gone(group.number, (*group.wanted.inputs, *group.wanted.moves), present, head)
    reason = gone or _find_newer(group, change) or _find_baseline_conflict(group, head, facts)
    if reason is not None:
        return reason
    if around is None or not (group.inputs or group.moves):
        return None
    own = (*group.wanted.inputs, *group.wanted.moves)
    found = find_in_the_way(around, group.spans(), group.wanted.level, own, keyed=keyed)
    if found is None:
        return None
    shown = f"'{found.path}' (level {found.level}, of snapshot {found.order_key.snapshot_id})"
    if keyed and found.level == group.wanted.level:
        return DroppedGroup(
            group.number,
            LEVEL_TAKEN,
            f"{shown} is at that level, shares its key range, and is not part of it. Take it as an input.",
            found.file_id,
        )
    return DroppedGroup(
        group.number,
        OUT_OF_ORDER,
        f"{shown} stands between its rows and the place they would get, and is not part of it: rows would pass it. "
        "Take it as an input, or leave out what lies beyond it.",
        found.file_id,
    )


def find_gone(
    number: int, named: Sequence[int], present: Mapping[int, FileFacts], head: TableHead
) -> DroppedGroup | None:
    """The reason to drop a group with a file that is no longer live; None: all are. Pure.

    Args:
        number: The group's index among the change's groups.
        named: Ids of the files that must be live.
        present: The ones of these that exist, live or not.
        head: The table's head.
    """
    for file_id in named:
        file = present.get(file_id)
        if file is None:
            return DroppedGroup(
                number, INPUT_GONE, f"{head.name} has no file {file_id}: it expired, or is another's.", file_id
            )
        if file.removed_snapshot is not None:
            return DroppedGroup(
                number,
                INPUT_GONE,
                f"'{file.removed_by}' removed '{file.path}' with snapshot {file.removed_snapshot}.",
                file_id,
                file.removed_snapshot,
                file.removed_by,
            )
    return None


def _find_baseline_conflict(group: _Group, head: TableHead, facts: CompactionFacts) -> DroppedGroup | None:
    """A changelog of differences is only right if each difference starts where the one before has ended."""
    if group.wanted.emits_changelog and not head.defers_changelog:
        return DroppedGroup(
            group.number,
            PRODUCER_CHANGED,
            f"The changelog producer of {head.name} is not 'full-compaction', or not any more. Compact it without a "
            "changelog.",
        )
    lost = next((file_id for file_id in group.wanted.baseline if file_id not in facts.baseline), None)
    if lost is not None:
        return DroppedGroup(
            group.number,
            TOLD_BY_OTHERS,
            f"Another compaction of {head.name} has written the changelog of file {lost} already. Plan again on the "
            "newest snapshot.",
            lost,
        )
    own = (*group.wanted.inputs, *group.wanted.moves)
    found = [file_id for file_id in own if file_id in facts.baseline]
    if not found or (
        set(found) <= set(group.wanted.baseline) if group.wanted.emits_changelog else len(found) == len(own)
    ):
        return None
    return DroppedGroup(
        group.number,
        TOLD_BY_OTHERS,
        f"The changelog of {head.name} has emitted the rows of file {found[0]}, and the compaction does not know of "
        "it. Plan anew on the newest snapshot.",
        found[0],
    )


def _find_newer(group: _Group, change: Change) -> DroppedGroup | None:
    newer = next((file for file in group.inputs if file.schema_id > change.schema_id), None)
    if newer is None:
        return None
    return DroppedGroup(
        group.number,
        SCHEMA_NEWER,
        f"'{newer.path}' was written with schema {newer.schema_id}, but the outputs with {change.schema_id}, which may "
        "lack some of its columns. Load the table again, then compact.",
        newer.file_id,
    )


def _refused(group: _Group, head: TableHead, what: str, reason: str) -> InvalidArgument:
    return InvalidArgument(
        f"Group {group.number} of the compaction of {head.name} {what}",
        reason=reason,
        metadata={"field": "groups", "value": str(group.number), "table": head.name},
    )
