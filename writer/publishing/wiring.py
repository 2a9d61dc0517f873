"""Which concrete classes the publisher runs on; here it can be read as a whole.

```
    PublisherService -- ListLogs, seats, leases ------------- metastore
       |  one for each table that is ours
    TableRunner ------- problems ---------------------------- metastore
       |
    TablePublisher ---- GetLog, GetPublishState, ReportPublished, Watch
       |         |
       |      FileLogs -- Plan (metastore), files (object store), codecs
       |
    KafkaLog ---------- producer, position, topic ----------- brokers
```
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from lakelog.client.grpc_metastore import GrpcMetastore
from lakelog.client.metastore import WatchPosition
from lakelog.client.target import TlsFiles
from lakelog.clock import SystemClock
from lakelog.errors import LakelogError
from lakelog.format.log_state import LogInfo, to_publisher_lease
from lakelog.serving.http_endpoint import serve_pages
from lakelog.serving.lease import LeaseKeeper
from lakelog.serving.logs import Log
from lakelog.storage.stores import LocationStores

from .config import PublishConfig
from .feed import WatchFeed
from .file_logs import FileLogs
from .metrics import PublisherMetrics
from .publisher import PublisherParts, TablePublisher
from .runner import TableRunner
from .seats import Seats
from .service import PublisherService
from .watchdog import Watchdog


def make_service(config: PublishConfig, log: Log) -> PublisherService:
    """Puts the publisher together; connects when it first asks for something.

    Raises:
        InvalidArgument: The port of the metrics is taken.
    """
    clock, metrics = SystemClock(), PublisherMetrics()
    metastore = _connect(config)
    holder = f"publisher {socket.gethostname()} {os.getpid()}"[:256]
    watchdog = Watchdog(config.stuck_s, clock, log)

    def make_lease(info: LogInfo, on_lost: Callable[[LakelogError], None]) -> LeaseKeeper:
        return LeaseKeeper(
            metastore,
            to_publisher_lease(info.table_uuid),
            holder,
            duration_s=config.lease_s,
            patience_s=config.patience_s,
            clock=clock,
            log=log,
            on_lost=on_lost,
            work=f"the publisher of {info.name}",
        )

    def open_feed(position: WatchPosition, info: LogInfo) -> WatchFeed:
        return WatchFeed(metastore, position, complete=shows_changelog(info))

    parts = PublisherParts(
        metastore=metastore,
        open_log=open_kafka_log,
        check_topic=check_topic,
        logs=FileLogs(metastore, LocationStores(config.connect.s3)),
        open_feed=open_feed,
        clock=clock,
    )

    def make_runner(info: LogInfo, lease: LeaseKeeper) -> TableRunner:
        publisher = TablePublisher(info.table_uuid, lease.epoch, parts)
        return TableRunner(str(info.name), info.table_uuid, publisher, lease, metastore, clock, watchdog, metrics, log)

    service = PublisherService(
        metastore,
        make_lease=make_lease,
        make_runner=make_runner,
        seats=Seats(metastore, holder, int(config.lease_s * 3000)),
        tables=config.tables,
        patience_s=config.patience_s,
        clock=clock,
        metrics=metrics,
        log=log,
    )
    log.info(
        "starting",
        target=config.connect.target,
        tables=sorted(map(str, config.tables)) or "all",
        process=os.getpid(),
    )
    watchdog.start()
    if config.metrics_port is not None:
        port = serve_pages(config.metrics_host, config.metrics_port, metrics.registry, lambda: service.is_healthy)
        log.info("metrics", port=port)
    return service


def _connect(config: PublishConfig) -> GrpcMetastore:
    settings = config.connect
    files = TlsFiles(settings.tls_ca, settings.tls_cert, settings.tls_key) if settings.tls else None
    return GrpcMetastore(settings.target, tls=files, token=settings.token)
