"""Which concrete classes a pipeline uses; this is its construction in one place."""

from __future__ import annotations

import os
import socket
from contextlib import closing

from pyspark.sql import SparkSession

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import SystemClock
from lakelog.format.jobs.presence import WRITER, ServiceState
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.options.declared.tables import CHANGELOG_PRODUCER, SEQUENCE_FIELD
from lakelog.options.values import TableOptions
from lakelog.serving.http_endpoint import serve_pages
from lakelog.serving.lease import LeaseRenewer
from lakelog.serving.logging_setup import Logger
from lakelog.serving.presence import Activity, Presence, make_presence
from lakelog.serving.streams.checkpoint_lock import CheckpointLock
from lakelog.serving.streams.leased_stream import Events
from lakelog.serving.streams.mismatches import Mismatches
from lakelog.serving.streams.spark_process import keeping_interrupts
from lakelog.serving.telemetry.process_metrics import add_process_metrics
from lakelog.spark.connection import make_connection, open_metastore
from lakelog.spark.installing import install_for_writes
from lakelog.spark.session.executors import EXECUTORS_WITHIN_S, is_on_this_machine, wait_for_executors
from lakelog.spark.session.gateway import watch_java
from lakelog.spark.session.session import PendingSession
from lakelog.spark.session.warm_up import warm_up

from .batch import BatchWriter
from .checking import heeds_headers, make_coercion
from .checkpoint import Checkpoint, open_checkpoint
from .config import Config
from .files.batch_log import BatchLog
from .files.listing import list_files
from .files.source import FilesSource
from .kafka.offset_log import OffsetLog
from .kafka.source import TopicSource
from .kafka.tasks import KafkaReadTask
from .kafka.topic import Topic
from .metrics import Metrics
from .pipeline.spec import FileSource, Pipeline
from .progress import Progress
from .records.coercion import Coercion
from .records.dead_letters import mark_name
from .records.target import Target
from .records.tasks import ReadTask
from .service import Service
from .source import Source


def open_catalog(config: Config, pipeline: Pipeline) -> tuple[Metastore, str]:
    """The metastore and its address; connects with its first request."""
    target = config.target or pipeline.target
    connection = make_connection(target, tls=None, tls_ca=None, tls_cert=None, tls_key=None, token=None)
    return open_metastore(connection), connection.target


def check_pipeline(metastore: Metastore, pipeline: Pipeline) -> tuple[TableInfo, Coercion]:
    """Checks table and source; returns the table and how rows become rows of it.

    Raises:
        InvalidArgument: They do not fit; the error has all problems, a line each, as `file:line:column: key: what`.
        NotFound: The table or the source's folder does not exist.
        Unavailable: The metastore does not answer.
    """
    mismatches = Mismatches(pipeline.places)
    _check_source(pipeline, mismatches)
    found: tuple[TableInfo, Coercion] | None = None
    with mismatches.of("table"):
        info = metastore.get_table(to_table_name(pipeline))
        found = info, make_coercion(pipeline, info, mismatches, find_added(metastore, info))
    mismatches.check()
    assert found is not None, "what was in its way has been told"
    return found


def find_added(metastore: Metastore, info: TableInfo) -> frozenset[str]:
    """The columns that a table got after it was made; asks the metastore only if it was altered."""
    if info.schema.schema_id == 0:
        return frozenset()
    first = set(min(metastore.list_schemas(info.table_uuid), key=lambda each: each.schema_id).field_ids.values())
    return frozenset(name for name, found in info.schema.field_ids.items() if found not in first)


def make_target(pipeline: Pipeline, metastore: Metastore) -> Target:
    """The pipeline's table after a check of the source; raises as `check_pipeline`."""
    info, coercion = check_pipeline(metastore, pipeline)

    def fit(altered: TableInfo) -> Coercion:
        if altered is info:
            return coercion
        mismatches = Mismatches(pipeline.places)
        fitted = make_coercion(pipeline, altered, mismatches, find_added(metastore, altered))
        mismatches.check()
        return fitted

    return Target(pipeline, metastore, info, fit)


def _check_source(pipeline: Pipeline, mismatches: Mismatches) -> None:
    source = pipeline.source
    if isinstance(source, FileSource):
        with mismatches.of("source.path"):
            list_files(source)
        return
    for name in source.topics:
        with mismatches.of("source.topic"), closing(Topic(source, name)) as topic:
            topic.read_offsets()


def make_source(pipeline: Pipeline, target: Target, checkpoint: Checkpoint, *, marks_letters: bool) -> Source:
    """The pipeline's source, with its part of the checkpoint."""
    source = pipeline.source

    def find_mark(batch_id: int) -> str | None:
        return mark_name(pipeline.name, batch_id) if marks_letters else None

    if isinstance(source, FileSource):
        return FilesSource(
            source,
            BatchLog(checkpoint.log_folder),
            lambda batch_id: ReadTask(
                pipeline.name,
                batch_id,
                source.path,
                source.format,
                target.coercion,
                pipeline.dead_letters,
                find_mark(batch_id),
                pipeline.evolution,
            ),
        )

    def make_task(batch_id: int) -> KafkaReadTask:
        options = TableOptions(target.info.options)
        return KafkaReadTask(
            pipeline.name,
            batch_id,
            source,
            target.coercion,
            # Other tables look the old rows up, or show none.
            options.get(CHANGELOG_PRODUCER) == "input",
            pipeline.dead_letters,
            heeds_headers(pipeline, target.info),
            options.get(SEQUENCE_FIELD),
            find_mark(batch_id),
            evolution=pipeline.evolution,
        )

    return TopicSource(source, OffsetLog(checkpoint.offsets_folder), make_task)


def to_table_name(pipeline: Pipeline) -> TableName:
    """The pipeline's table. Pure."""
    database, _, name = pipeline.table.partition(".")
    return TableName(database, name)


def make_service(
    config: Config,
    pipeline: Pipeline,
    metastore: Metastore,
    target: str,
    events: Events,
    session: PendingSession,
    log: Logger,
) -> tuple[Service, Presence]:
    """Puts a pipeline together, with its presence.

    Args:
        config: The settings of the process.
        pipeline: The pipeline.
        metastore: Knows its table.
        target: The metastore's address.
        events: Events from outside.
        session: Spark's session, which may not be there yet.
        log: The service's log.
    """
    clock = SystemClock()
    metrics = Metrics(pipeline.name, pipeline.source.unit)
    add_process_metrics(metrics.registry, WRITER)
    lease = LeaseRenewer(
        metastore,
        pipeline.lease,
        f"writer {socket.gethostname()} {os.getpid()}",
        duration_s=config.lease_s,
        max_unavailable_s=config.max_unavailable_s,
        clock=clock,
        log=log,
        on_lost=lambda error: service.lose(error),
        lock=CheckpointLock(pipeline.checkpoint),
    )

    def is_ready() -> bool:
        # An instance that waits for the lease is ready: it takes over at once, and a rollout waits for it.
        return lease.is_answered and not events.is_ending

    port = None
    if config.metrics_port is not None:
        port = serve_pages(config.metrics_host, config.metrics_port, metrics.registry, is_ready)
        log.info("metrics", port=port)

    def make_writer() -> BatchWriter:
        table = make_target(pipeline, metastore)
        checkpoint = open_checkpoint(pipeline, table.info.table_uuid)
        marks_letters = not is_on_this_machine(config.spark_master)
        source = make_source(pipeline, table, checkpoint, marks_letters=marks_letters)
        return BatchWriter(pipeline, table, source, checkpoint, metastore, lease, clock, marks_letters)

    def start_spark() -> SparkSession:
        with keeping_interrupts():
            spark = session.wait()
        watch_java(lambda error: service.fail(error))
        if not wait_for_executors(spark.sparkContext, clock, EXECUTORS_WITHIN_S):
            log.warning("no executor of Spark has come yet; batches wait for one", master=config.spark_master)
        install_for_writes(spark, target)
        return spark

    progress = Progress(pipeline, metastore, metrics, log)

    def observe() -> Activity:
        state = ServiceState.RUNNING if progress.is_running else ServiceState.STARTING
        return Activity(ServiceState.DRAINING if events.is_ending else state, (pipeline.name,))

    presence = make_presence(WRITER, metastore, observe, log, host=config.metrics_host, port=port)
    service = Service(
        pipeline,
        check=lambda: check_pipeline(metastore, pipeline),
        start_spark=start_spark,
        warm_up=warm_up if is_on_this_machine(config.spark_master) else None,
        make_writer=make_writer,
        lease=lease,
        progress=progress,
        events=events,
        max_unavailable_s=config.max_unavailable_s,
        wait_for_lease=not config.no_wait,
        after_restore=config.after_restore,
        clock=clock,
        log=log,
    )
    return service, presence


def make_events() -> Events:
    """Nothing has happened yet."""
    return Events()
