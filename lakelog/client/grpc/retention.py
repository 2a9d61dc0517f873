"""Over gRPC: what readers need of snapshots, names of snapshots, files, and tables that were dropped."""

from __future__ import annotations

from lakelog.client.connection.calls import Calls
from lakelog.client.connection.retry import RetryPolicy
from lakelog.client.grpc.unary import mutation, read


class GrpcRetention:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about how long snapshots and files stay."""

    _calls: Calls
    _retries: RetryPolicy

    # Repeated: work whose answer was lost is missing in the counts, and nothing else.
    expire_snapshots = mutation()
    # Repeated: idempotent.
    lease_snapshot = mutation()
    release_snapshot = mutation()
    list_snapshot_leases = read()
    list_overdue_snapshots = read()
    list_expired_files = read()
    # Repeated: idempotent.
    forget_expired_files = mutation()

    # Repeated: a lost answer means that this caller itself may have opened it.
    open_consumer = mutation()
    # Repeated: idempotent.
    advance_consumer = mutation()
    renew_consumer = mutation()
    list_consumers = read()
    # Repeated: idempotent except for its epoch.
    reset_consumer = mutation()
    delete_consumer = mutation(repeat_unknown=False)

    # Not repeated after an unknown outcome: the name would be taken by then.
    create_tag = mutation(repeat_unknown=False)
    list_tags = read()
    # Not repeated after an unknown outcome: a repeat would find no tag.
    delete_tag = mutation(repeat_unknown=False)

    list_dropped_tables = read()
    # Not repeated after an unknown outcome: a repeat would restore another.
    restore_table = mutation(repeat_unknown=False)
    # Repeated: idempotent.
    begin_purge = mutation()
    purge_rows = mutation()

    find_used_files = read()
    list_used_files = read()
    list_partition_files = read()
    list_unfinished_attempts = read()
    # Repeated: idempotent.
    abort_attempts = mutation()
    # Repeated: idempotent, but for the count.
    forget_attempts = mutation()
