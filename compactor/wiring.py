"""Which concrete classes the service uses; this is its construction in one place.

```
    Service -- LeaseJob, HeartbeatJob, FinishJob --- metastore
       |
    ChangelogJobExecutor --- plans, AttachChangelogs ------ metastore
    CompactionJobExecutor -- plans, Commit ---------------- metastore
       |         `--- Rewriter: this process, or tasks of Spark
    CleaningJobExecutor ---- AbortAttempts, ForgetAttempts - metastore
    PartitionExpiryJobExecutor  partitions, Commit -------- metastore
    DeletionVectorJobExecutor - plans, Commit ------------- metastore
    PurgeJobExecutor ------- BeginPurge, PurgeRows -------- metastore
    DedicatedCompaction ---- PlanCompactions -------------- metastore
    QueueWatch ------------- DescribeQueue ---------------- metastore
    ExpiryJobExecutor ------ ExpireSnapshots, expired files  metastore
       |
    object stores, local copies of data files
```
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from lakelog.client.connection.target import TlsFiles
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.clock import Clock, SystemClock
from lakelog.format.jobs.job import CHANGELOG, CLEAN, COMPACT, DELETION_VECTORS, EXPIRE, EXPIRE_PARTITIONS, PURGE
from lakelog.format.jobs.presence import COMPACTOR, ServiceState
from lakelog.serving.http_endpoint import serve_pages
from lakelog.serving.logging_setup import Logger
from lakelog.serving.presence import Activity, Presence, make_presence
from lakelog.serving.streams.spark_log_file import choose_spark_log
from lakelog.serving.streams.spark_process import keeping_interrupts, let_workers_import
from lakelog.serving.telemetry.process_metrics import add_process_metrics
from lakelog.storage.lookup.caches import Caches
from lakelog.storage.objects.stores import LocationStores

from .compactions.changelogs import ChangelogJobExecutor
from .compactions.compactions import CompactionJobExecutor
from .compactions.dedicated import DedicatedCompaction
from .compactions.deletion_vectors import DeletionVectorJobExecutor
from .compactions.rewriting import LocalRewriter, Rewriter
from .config import Config, read_environment
from .executor import JobExecutor
from .metrics import Metrics
from .queue_watch import QueueWatch
from .retention.cleaning import CleaningJobExecutor
from .retention.expiry import ExpiryJobExecutor
from .retention.partition_expiry import PartitionExpiryJobExecutor
from .retention.purges import PurgeJobExecutor
from .service import Service
from .tables import NamedTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_service(config: Config, log: Logger) -> tuple[Service, Presence]:
    """Puts the service together, with its presence; connects with its first request.

    Raises:
        InvalidArgument: The port of the metrics is taken.
    """
    clock, metrics = SystemClock(), Metrics()
    add_process_metrics(metrics.registry, COMPACTOR)
    metastore = _connect(config)
    stores, caches = LocationStores(config.connect.s3, metastore), Caches(config.connect.cache_folder)
    executors: dict[str, JobExecutor] = {
        CHANGELOG: ChangelogJobExecutor(metastore, stores, caches, clock, metrics, log),
        COMPACT: CompactionJobExecutor(metastore, stores, clock, metrics, log, _make_rewriter(config, clock, log)),
        DELETION_VECTORS: DeletionVectorJobExecutor(metastore, stores, metrics, log),
        CLEAN: CleaningJobExecutor(metastore, stores, metrics, log),
        EXPIRE_PARTITIONS: PartitionExpiryJobExecutor(metastore, metrics, log),
        PURGE: PurgeJobExecutor(metastore, stores, metrics, log),
        EXPIRE: ExpiryJobExecutor(metastore, stores, metrics, log),
    }
    service = Service(
        metastore,
        waiting=_connect(config),
        find_tables=NamedTables(metastore, config.tables, log).find,
        executors=executors,
        stores=stores,
        holder=f"compactor {socket.gethostname()} {os.getpid()}"[:256],
        lease_s=config.lease_s,
        max_unavailable_s=config.max_unavailable_s,
        once=config.once,
        clock=clock,
        metrics=metrics,
        log=log,
        dedicated_compaction=DedicatedCompaction(metastore, log),
        queue=QueueWatch(metastore, clock, metrics, log),
    )
    log.info(
        "starting",
        target=config.connect.target,
        tables=[str(name) for name in config.tables] or "all",
        process=os.getpid(),
    )
    port = None
    if config.metrics_port is not None:
        port = serve_pages(config.metrics_host, config.metrics_port, metrics.registry, lambda: service.is_ready)
        log.info("metrics", port=port)
    presence = make_presence(COMPACTOR, metastore, lambda: observe(service), log, host=config.metrics_host, port=port)
    return service, presence


def observe(service: Service) -> Activity:
    """The current activity of the service, for its presence."""
    job = service.job
    work = () if job is None else (f"{job.kind} {job.table}",)
    return Activity(ServiceState.DRAINING if service.is_stopping else ServiceState.RUNNING, work)


def _make_rewriter(config: Config, clock: Clock, log: Logger) -> Rewriter:
    if not config.spark_master:
        return LocalRewriter(clock)
    # Imported here: without Spark neither it nor Java is needed.
    from lakelog.spark.session.executors import EXECUTORS_WITHIN_S, wait_for_executors
    from lakelog.spark.session.session import build_service_session

    from .compactions.spark_rewriting import SparkRewriter

    def start_spark() -> SparkSession:
        let_workers_import(__file__, __package__ or "")
        spark_log_file = choose_spark_log(config.spark_log_file, "compactor", read_environment())
        log.info("starting Spark", master=config.spark_master, spark_log_file=str(spark_log_file or "standard error"))
        with keeping_interrupts():
            spark = build_service_session("lakelog-compactor", config.spark_master, config.spark_conf, spark_log_file)
        # Before that Spark does not know how many tasks make a batch.
        if not wait_for_executors(spark.sparkContext, clock, EXECUTORS_WITHIN_S):
            log.warning("no executor of Spark has come yet", master=config.spark_master)
        return spark

    return SparkRewriter(start_spark, clock, log)


def _connect(config: Config) -> GrpcMetastore:
    settings = config.connect
    files = TlsFiles(settings.tls_ca, settings.tls_cert, settings.tls_key) if settings.tls else None
    return GrpcMetastore(settings.target, tls=files, token=settings.token)
