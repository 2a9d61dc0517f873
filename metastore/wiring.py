"""The construction of the service: the only module that picks concrete classes.

```
          gRPC                        HTTP
           |                           |
    MetastoreServer              HttpEndpoint
           |                           |
        UseCases ---- PrometheusMetrics, RpcMetrics
       |         |       |
       |         |    Brokers: topics of logs, by KafkaLog in threads
       |         |
       |     Background: packing, polling, announcing, listening, topics
       |
    PostgresStore      DatabaseProbe (health)
       |                   |
       +---- Postgres -----+
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, GCCollector

from lakelog.client.connection.target import Target
from lakelog.clock import RandomIds, SystemClock
from lakelog.config import read_s3_settings
from lakelog.errors import InvalidArgument, LakelogError
from lakelog.extras import explain_missing
from lakelog.format.jobs.presence import METASTORE
from lakelog.serving.access import Access
from lakelog.serving.http_endpoint import HttpEndpoint, open_beside
from lakelog.serving.listening import say_ready
from lakelog.serving.presence import to_metrics_address
from lakelog.serving.probe_port import open_probe_port
from lakelog.serving.rotation.live_access import LiveAccess
from lakelog.serving.rotation.metrics import RotationMetrics
from lakelog.serving.rotation.opening import open_tls
from lakelog.serving.rotation.rotation import Rotation
from lakelog.serving.telemetry.process_metrics import add_process_metrics

from .background import Background
from .config import CheckConfig, MigrateConfig, ServeConfig, read_environment
from .credentials.checked import CheckedVending
from .credentials.identity import read_identity
from .credentials.opening import check_vending, open_vending
from .heavy_work import COLLECTOR, HeavyWork
from .logs.brokers import Brokers
from .logs.owner_rules import OwnerRules
from .metrics import PrometheusMetrics
from .postgres import PostgresStore, check_current, migrate
from .server.audit import log, log_vended
from .server.database_probe import DatabaseProbe
from .server.edge.call_limits import CallLimits
from .server.grpc_server import MetastoreServer, ServerSettings
from .server.lifecycle import run_until_signal
from .server.own_presence import make_presence
from .server.rpc_metrics import RpcMetrics
from .server.startup import StartupFailure, check_warehouse, one_line, show_database_url, wait_for_database
from .store.limits import Limits
from .use_cases import UseCases

if TYPE_CHECKING:
    from lakelog.serving.rotation.live_tls import LiveTls

_GC_FIRST_GENERATION: Final = 10_000
"""New objects between two collections: some 50 commits. With Python's 700, collecting takes 8 % of a commit."""


async def serve(config: ServeConfig) -> None:
    """Runs the service until a signal ends it.

    Raises:
        StartupFailure: A check failed, or a port is taken.
    """
    ways_in, tls = await _open_ways_in(config)
    vending = await _check_stores(config, may_migrate=config.migrate)
    # The service starts with 100,000 objects. Without this, each full garbage collection scans all of them while every
    # commit waits: 40 to 150 ms on a busy machine.
    COLLECTOR.settle(_GC_FIRST_GENERATION)
    ids, clock = RandomIds(), SystemClock()
    registry = CollectorRegistry()
    add_process_metrics(registry, METASTORE)
    GCCollector(registry=registry)
    rpc_metrics = RpcMetrics(registry)

    work = HeavyWork()
    store = PostgresStore(
        config.database_url,
        pool_size=config.database_connections,
        durability=config.durability,
        work=work,
        silence_s=config.database_silence_s,
        idle_s=config.database_idle_s,
    )
    store.measure(registry)
    use_cases = UseCases(
        store,
        config.warehouse,
        limits=Limits(chunk_cache_bytes=config.plan_cache_bytes),
        work=work,
        clock=clock,
        ids=ids,
        metrics=PrometheusMetrics(registry),
        dropped_retention_ms=int(config.dropped_retention_s * 1000),
        brokers=_open_brokers(config),
        vend=None if vending is None else vending.settings,
        vended=log_vended,
        owner_rules=OwnerRules(config.owner_topics, config.owner_secrets),
    )
    probe = DatabaseProbe(config.database_url)
    server = MetastoreServer(use_cases, probe, _settings(config, ways_in.access, tls), rpc_metrics, ids)
    ways_in.on_change = server.use_access
    rotation = Rotation(ways_in.watched, tls, RotationMetrics(registry), log)

    try:
        http = open_beside(config.listen.host, config.metrics_port, registry, lambda: server.health.serving)
        metrics = to_metrics_address(config.listen.host, None if http is None else http.port)
        presence = make_presence(
            use_cases.services, server, host=config.listen.host, metrics=metrics, ids=ids, clock=clock
        )
        rotation.start()
        if vending is not None:
            await vending.start()
        async with open_probe_port(config.listen.host, config.health_port, lambda: server.health.serving):
            await run_until_signal(
                server, Background(use_cases), http, presence, lambda: _say_ready(config, server, http)
            )
    except InvalidArgument as error:
        raise StartupFailure(one_line(error.message)) from error
    finally:
        await rotation.close()
        if vending is not None:
            await vending.close()
        await use_cases.close()
        await store.close()
        await probe.close()


async def check(config: CheckConfig) -> None:
    """Checks the ways in, warehouse and database, as `serve` does at its start.

    Raises:
        StartupFailure: One line that says what is wrong and what to do.
    """
    await _open_ways_in(config)
    vending = await _check_stores(config)
    try:
        if vending is not None:
            await asyncio.to_thread(vending.check)
    except LakelogError as error:
        raise StartupFailure(one_line(error.message)) from error


async def _open_ways_in(config: CheckConfig) -> tuple[LiveAccess, LiveTls | None]:
    clock = SystemClock()
    try:
        ways_in = await asyncio.to_thread(LiveAccess, config.access, clock, log)
        return ways_in, open_tls(config.tls, clock)
    except LakelogError as error:
        raise StartupFailure(one_line(error.message)) from error


async def _check_stores(config: CheckConfig, *, may_migrate: bool = False) -> CheckedVending | None:
    """Checks warehouse and database, which it may bring up to date; returns how keys of the store are vended.

    The check of that vending has not begun.
    """
    await asyncio.to_thread(check_warehouse, config.warehouse)
    vending = await asyncio.to_thread(_open_vending, config)
    await _reach_database(config.database_url, config.wait_for_database_s)
    try:
        if may_migrate:
            await asyncio.to_thread(migrate, config.database_url)
        newer = await asyncio.to_thread(check_current, config.database_url)
        if newer:
            log.warning("a newer version migrated the database, and this one can serve it", revision=newer)
        await _check_durable(config)
    except LakelogError as error:
        raise StartupFailure(one_line(error.message)) from error
    return vending


def _open_vending(config: CheckConfig) -> CheckedVending | None:
    try:
        environment = read_environment()
        vend = open_vending(
            config.vend_role, config.vend_endpoint, config.vend_duration_s, config.warehouse, environment
        )
        if vend is None:
            return None
        read_identity(environment)
        own = read_s3_settings(environment)
        return CheckedVending(vend, lambda: check_vending(vend, config.warehouse, own, RandomIds()))
    except LakelogError as error:
        raise StartupFailure(one_line(error.message)) from error


async def _check_durable(config: CheckConfig) -> None:
    store = PostgresStore(config.database_url, pool_size=1, durability=config.durability)
    try:
        await store.check()
    finally:
        await store.close()


async def bring_up_to_date(config: MigrateConfig) -> str:
    """Migrates the database.

    Returns:
        The revision it has now.

    Raises:
        StartupFailure: The database cannot be reached, or is newer than this version.
    """
    await _reach_database(config.database_url, config.wait_for_database_s)
    try:
        return await asyncio.to_thread(migrate, config.database_url)
    except LakelogError as error:
        raise StartupFailure(one_line(error.message)) from error


async def _reach_database(url: str, wait_s: float) -> None:
    probe = DatabaseProbe(url)
    try:
        await wait_for_database(probe.ping, show_database_url(url), wait_s, SystemClock())
    finally:
        await probe.close()


def _open_brokers(config: ServeConfig) -> Brokers:
    """The clusters that tables may name; the Kafka client is needed only where there are some."""
    if not config.kafka_clusters:
        return Brokers()
    try:
        from lakelog.log.kafka import KafkaLog, open_kafka_log
    except ModuleNotFoundError as error:
        raise StartupFailure(explain_missing(error, "--kafka-brokers", "kafka")) from error

    def open_log(options: Mapping[str, str]) -> KafkaLog:
        return open_kafka_log(options, config.secrets)

    return Brokers(config.kafka_clusters, open_log)


def _settings(config: ServeConfig, access: Access, tls: LiveTls | None) -> ServerSettings:
    return ServerSettings(
        host=config.listen.host,
        port=config.listen.port,
        tls=tls,
        access=access,
        limits=CallLimits(
            max_calls=config.max_calls,
            max_streams=config.max_streams,
            caller_share=config.caller_share,
            connection_share=config.connection_share,
            commit_reserve=config.commit_reserve,
            call_rate=config.call_rate,
        ),
        large_request_bytes=config.large_request_bytes,
        max_connections=config.max_connections,
        max_connection_age_s=config.max_connection_age_s,
        grace_s=config.grace_s,
    )


def _say_ready(config: ServeConfig, server: MetastoreServer, http: HttpEndpoint | None) -> None:
    if config.insecure_dev:
        who = "everyone on this machine may do everything" if config.access.open else "tokens are asked for"
        log.warning("INSECURE: plaintext for development, on loopback only", access=who)
    say_ready("metastore", Target(config.listen.host, server.port), config.tls, http)
