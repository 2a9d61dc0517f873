"""Which concrete classes a pipeline runs on; here the service can be read as a whole."""

from __future__ import annotations

import os
import socket

from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.client.metastore import Metastore
from lakelog.clock import SystemClock
from lakelog.format.table import TableInfo, TableName
from lakelog.serving.http_endpoint import serve_metrics
from lakelog.serving.lease import LeaseKeeper
from lakelog.serving.leased_stream import Events
from lakelog.serving.logs import Log
from lakelog.serving.misfits import Misfits
from lakelog.serving.spark_process import keeping_interrupts, let_workers_import
from lakelog.spark.connection import make_connection, open_metastore

from .batch import BatchWriter
from .checking import make_fitting
from .checkpoint import Checkpoint, open_checkpoint
from .config import Config
from .files.batch_log import BatchLog
from .files.listing import list_files
from .files.source import FilesSource
from .metrics import Metrics
from .pipeline.spec import Pipeline
from .progress import Progress
from .records.fitting import Fitting
from .records.tasks import ReadTask
from .service import Service
from .source import Source


def open_catalog(config: Config, pipeline: Pipeline) -> tuple[Metastore, str]:
    """The metastore, and where it is; connects when it is first asked."""
    target = config.target or pipeline.target
    connection = make_connection(target, tls=None, tls_ca=None, tls_cert=None, tls_key=None, token=None)
    return open_metastore(connection), connection.target


def check_pipeline(metastore: Metastore, pipeline: Pipeline) -> tuple[TableInfo, Fitting]:
    """Checks table and source; returns the table and how rows become its.

    Raises:
        InvalidArgument: They do not fit; all problems together, a line each, as `file:line:column: key: what`.
        NotFound: The table or the source's folder does not exist.
        Unavailable: The metastore does not answer.
    """
    misfits = Misfits(pipeline.places)
    with misfits.of("source.path"):
        list_files(pipeline.source)
    found: tuple[TableInfo, Fitting] | None = None
    with misfits.of("table"):
        info = metastore.get_table(to_table_name(pipeline))
        found = info, make_fitting(pipeline, info, misfits)
    misfits.check()
    assert found is not None, "what was in its way has been told"
    return found


def make_source(pipeline: Pipeline, fitting: Fitting, checkpoint: Checkpoint) -> Source:
    """The pipeline's source, with its part of the checkpoint."""
    source = pipeline.source

    def task(batch_id: int) -> ReadTask:
        return ReadTask(pipeline.name, batch_id, source.path, source.format, fitting, pipeline.dead_letters)

    return FilesSource(source, BatchLog(checkpoint.log_folder), task)


def to_table_name(pipeline: Pipeline) -> TableName:
    """The pipeline's table. Pure."""
    database, _, name = pipeline.table.partition(".")
    return TableName(database, name)


def make_service(
    config: Config, pipeline: Pipeline, metastore: Metastore, target: str, events: Events, log: Log
) -> Service:
    """Puts a pipeline together."""
    clock = SystemClock()
    metrics = Metrics(pipeline.name, pipeline.source.unit)
    if config.metrics_port is not None:
        log.info("metrics", port=serve_metrics(config.metrics_host, config.metrics_port, metrics.registry))
    lease = LeaseKeeper(
        metastore,
        pipeline.lease,
        f"writer {socket.gethostname()} {os.getpid()}",
        duration_s=config.lease_s,
        patience_s=config.patience_s,
        clock=clock,
        log=log,
        on_lost=lambda error: service.lose(error),
    )

    def make_writer() -> BatchWriter:
        info, fitting = check_pipeline(metastore, pipeline)
        checkpoint = open_checkpoint(pipeline, info.table_uuid)
        source = make_source(pipeline, fitting, checkpoint)
        return BatchWriter(pipeline, info, fitting, source, checkpoint, metastore, lease, clock)

    def start_spark(source: Source) -> SparkSession:
        let_workers_import(__file__, __package__ or "")
        with keeping_interrupts():
            spark = lakelog.spark.build_session(f"lakelog-{pipeline.name}", config.spark_master, config.spark_conf)
        lakelog.spark.install(spark, target)
        source.register(spark)
        return spark

    service = Service(
        pipeline,
        start_spark=start_spark,
        make_writer=make_writer,
        lease=lease,
        progress=Progress(pipeline, metastore, metrics, log),
        events=events,
        patience_s=config.patience_s,
        wait_for_lease=not config.no_wait,
        clock=clock,
        log=log,
    )
    return service


def make_events() -> Events:
    """Nothing has happened yet."""
    return Events()
