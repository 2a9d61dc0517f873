"""Which concrete classes the publisher uses; this is its construction in one place.

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
from functools import partial

from lakelog.client.connection.target import TlsFiles
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument, LakelogError
from lakelog.format.jobs.presence import PUBLISHER, ServiceState
from lakelog.format.log.state import LogInfo, to_publisher_lease
from lakelog.log.kafka import KafkaLog, open_kafka_log
from lakelog.log.kafka.sending.retries import count_hanging
from lakelog.log.records import TopicState
from lakelog.log.secrets import Secrets
from lakelog.log.table_codec import load_log_settings
from lakelog.log.topic_rules import check_topic
from lakelog.options.declared.log import CHANGELOG_CONTENT, LOG_CONTENT
from lakelog.serving.http_endpoint import serve_pages
from lakelog.serving.lease import LeaseRenewer
from lakelog.serving.logging_setup import Logger
from lakelog.serving.presence import Activity, Presence, make_presence
from lakelog.serving.telemetry.process_metrics import add_process_metrics
from lakelog.storage.objects.stores import LocationStores

from .config import PublishConfig
from .metrics import PublisherMetrics
from .notes import PublishedNotes
from .publisher import PublisherContext, TablePublisher
from .reading.feed import WatchFeed
from .reading.file_logs import FileLogs
from .runner import TableRunner
from .service import PublisherService
from .topics.membership import PublisherMembership
from .topics.monitor import TopicMonitor
from .watchdog import Watchdog


def make_service(config: PublishConfig, secrets: Secrets, log: Logger) -> tuple[PublisherService, Presence]:
    """Puts the publisher together, with its presence; connects with its first request.

    Args:
        config: The settings.
        secrets: The secrets that options of logs refer to.
        log: The service's log.

    Raises:
        InvalidArgument: The port of the metrics is taken.
    """
    clock, metrics = SystemClock(), PublisherMetrics()
    add_process_metrics(metrics.registry, PUBLISHER)
    metastore = _connect(config)
    holder = f"publisher {socket.gethostname()} {os.getpid()}"[:256]
    watchdog = Watchdog(config.stuck_s, clock, log, count_hanging=count_hanging)
    metrics.hanging_calls.set_function(count_hanging)

    def make_lease(info: LogInfo, on_lost: Callable[[LakelogError], None]) -> LeaseRenewer:
        return LeaseRenewer(
            metastore,
            to_publisher_lease(info.table_uuid),
            holder,
            duration_s=config.lease_s,
            max_unavailable_s=config.max_unavailable_s,
            clock=clock,
            log=log,
            on_lost=on_lost,
            work=f"the publisher of {info.name}",
        )

    def open_feed(position: WatchPosition, info: LogInfo) -> WatchFeed:
        return WatchFeed(metastore, position, complete=LOG_CONTENT.read(info.options) == CHANGELOG_CONTENT)

    def open_log(info: LogInfo) -> KafkaLog:
        return open_kafka_log(info.options, secrets)

    context = PublisherContext(
        metastore=metastore,
        open_log=open_log,
        check_topic=partial(check_matches, metastore),
        logs=FileLogs(metastore, LocationStores(config.connect.s3, metastore)),
        open_feed=open_feed,
        monitor=TopicMonitor(open_log, clock),
        clock=clock,
        on_published=PublishedNotes(metrics, log).note,
    )

    def make_runner(info: LogInfo, lease: LeaseRenewer) -> TableRunner:
        publisher = TablePublisher(info.table_uuid, lease.epoch, context)
        return TableRunner(str(info.name), info.table_uuid, publisher, lease, metastore, clock, watchdog, metrics, log)

    service = PublisherService(
        metastore,
        make_lease=make_lease,
        make_runner=make_runner,
        membership=PublisherMembership(metastore, holder, int(config.lease_s * 1000), config.tables),
        tables=frozenset(config.tables),
        max_unavailable_s=config.max_unavailable_s,
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
    port = None
    if config.metrics_port is not None:
        port = serve_pages(config.metrics_host, config.metrics_port, metrics.registry, lambda: service.is_ready)
        log.info("metrics", port=port)

    def observe() -> Activity:
        return Activity(ServiceState.DRAINING if service.is_stopping else ServiceState.RUNNING, service.tables)

    presence = make_presence(PUBLISHER, metastore, observe, log, host=config.metrics_host, port=port)
    return service, presence


def check_matches(metastore: Metastore, info: LogInfo, topic: TopicState) -> None:
    """Checks that a topic can hold a table's log (R9).

    Raises:
        InvalidArgument: It cannot; the error says why, and what to do.
    """
    settings = load_log_settings(metastore.get_table_by_uuid(info.table_uuid))
    problems = check_topic(settings.to_topic_spec(info.topic), topic)
    if problems:
        raise InvalidArgument(
            f"The topic {info.topic} cannot hold the log of {info.name}. {' '.join(problems)}",
            reason="TOPIC_MISFIT",
            metadata={"table": str(info.name), "topic": info.topic},
        )


def _connect(config: PublishConfig) -> GrpcMetastore:
    settings = config.connect
    files = TlsFiles(settings.tls_ca, settings.tls_cert, settings.tls_key) if settings.tls else None
    return GrpcMetastore(settings.target, tls=files, token=settings.token)
