"""Which concrete classes the service runs on; here it can be read as a whole.

```
    Service -- LeaseJob, HeartbeatJob, FinishJob --- metastore
       |
    ChangelogDuty --- plans, AttachChangelogs ------ metastore
    CompactionDuty -- plans, Commit ---------------- metastore
       |         `--- Rewriter: this process, or tasks of Spark
    CleaningDuty ---- DoomAttempts, ForgetAttempts - metastore
    PartitionExpiryDuty  partitions, Commit -------- metastore
    MarkDuty -------- plans, Commit ---------------- metastore
    PurgeDuty ------- BeginPurge, PurgeRows -------- metastore
    Attendance ------ PlanCompactions -------------- metastore
    QueueWatch ------ DescribeQueue ---------------- metastore
    ExpiryDuty ------ ExpireSnapshots, doomed files  metastore
       |
    object stores, local copies of data files
```
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from lakelog.client.grpc_metastore import GrpcMetastore
from lakelog.client.target import TlsFiles
from lakelog.clock import Clock, SystemClock
from lakelog.format.job import CHANGELOG, CLEAN, COMPACT, EXPIRE, EXPIRE_PARTITIONS, MARK, PURGE
from lakelog.serving.http_endpoint import serve_pages
from lakelog.serving.logs import Log
from lakelog.serving.spark_log import choose_spark_log
from lakelog.serving.spark_process import keeping_interrupts, let_workers_import
from lakelog.storage.caches import Caches
from lakelog.storage.stores import LocationStores

from .attendance import Attendance
from .changelogs import ChangelogDuty
from .cleaning import CleaningDuty
from .compactions import CompactionDuty
from .config import Config, read_environment
from .duty import Duty
from .expiry import ExpiryDuty
from .marks import MarkDuty
from .metrics import Metrics
from .partition_expiry import PartitionExpiryDuty
from .purges import PurgeDuty
from .queue_watch import QueueWatch
from .rewriting import LocalRewriter, Rewriter
from .service import Service
from .tables import NamedTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_service(config: Config, log: Log) -> Service:
    """Puts the service together; connects when it first asks for something.

    Raises:
        InvalidArgument: The port of the metrics is taken.
    """
    clock, metrics = SystemClock(), Metrics()
    stores, caches = LocationStores(config.connect.s3), Caches(config.connect.cache_folder)
    metastore = _connect(config)
    duties: dict[str, Duty] = {
        CHANGELOG: ChangelogDuty(metastore, stores, caches, clock, metrics, log),
        COMPACT: CompactionDuty(metastore, stores, clock, metrics, log, _make_rewriter(config, clock, log)),
        MARK: MarkDuty(metastore, stores, metrics, log),
        CLEAN: CleaningDuty(metastore, stores, metrics, log),
        EXPIRE_PARTITIONS: PartitionExpiryDuty(metastore, metrics, log),
        PURGE: PurgeDuty(metastore, stores, metrics, log),
        EXPIRE: ExpiryDuty(metastore, stores, metrics, log),
    }
    service = Service(
        metastore,
        waiting=_connect(config),
        find_tables=NamedTables(metastore, config.tables, log).find,
        duties=duties,
        stores=stores,
        holder=f"compactor {socket.gethostname()} {os.getpid()}"[:256],
        lease_s=config.lease_s,
        patience_s=config.patience_s,
        once=config.once,
        clock=clock,
        metrics=metrics,
        log=log,
        attendance=Attendance(metastore, log),
        queue=QueueWatch(metastore, clock, metrics, log),
    )
    log.info(
        "starting",
        target=config.connect.target,
        tables=[str(name) for name in config.tables] or "all",
        process=os.getpid(),
    )
    if config.metrics_port is not None:
        port = serve_pages(config.metrics_host, config.metrics_port, metrics.registry, lambda: service.is_healthy)
        log.info("metrics", port=port)
    return service


def _make_rewriter(config: Config, clock: Clock, log: Log) -> Rewriter:
    if not config.spark_master:
        return LocalRewriter(clock)
    # Imported here: who asks for no Spark needs neither it nor Java.
    from lakelog.spark.session import build_service_session

    from .spark_rewriting import SparkRewriter

    def start_spark() -> SparkSession:
        let_workers_import(__file__, __package__ or "")
        spark_log = choose_spark_log(config.spark_log, "compactor", read_environment())
        log.info("starting Spark", master=config.spark_master, spark_log=str(spark_log or "standard error"))
        with keeping_interrupts():
            return build_service_session("lakelog-compactor", config.spark_master, config.spark_conf, spark_log)

    return SparkRewriter(start_spark, clock, log)


def _connect(config: Config) -> GrpcMetastore:
    settings = config.connect
    files = TlsFiles(settings.tls_ca, settings.tls_cert, settings.tls_key) if settings.tls else None
    return GrpcMetastore(settings.target, tls=files, token=settings.token)
