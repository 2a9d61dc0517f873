"""Which concrete classes `run` and `check` use; this is their construction in one place."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument, LakelogError
from lakelog.format.jobs.presence import READER, ServiceState
from lakelog.serving.http_endpoint import serve_pages
from lakelog.serving.lease import LeaseRenewer
from lakelog.serving.logging_setup import Logger
from lakelog.serving.presence import Activity, make_presence
from lakelog.serving.stopping import on_signals
from lakelog.serving.streams.checkpoint_lock import CheckpointLock
from lakelog.serving.streams.spark_log_file import choose_spark_log
from lakelog.serving.streams.spark_process import let_workers_import
from lakelog.serving.telemetry.process_metrics import add_process_metrics
from lakelog.spark.connection import make_connection, open_metastore
from lakelog.spark.session.executors import is_on_this_machine
from lakelog.spark.session.gateway import watch_java
from lakelog.spark.session.session import StartingSession
from lakelog.spark.session.warm_up import warm_up

from .config import RunConfig, read_environment
from .streams.checking import check_stream
from .streams.exit_status import ExitStatus, to_exit_status
from .streams.metrics import StreamMetrics
from .streams.progress import StreamProgress
from .streams.reading import read_each, read_streams
from .streams.runner import RunOptions, Shared, StreamRunner
from .streams.spec import Stream


def check(config: RunConfig) -> ExitStatus:
    """Reports what is wrong with each stream."""
    streams, problems = read_each(config.places)
    for problem in problems:
        print(problem, file=sys.stderr)  # noqa: T201
    worst = ExitStatus.INVALID if problems else ExitStatus.FINE
    for stream in streams:
        if config.file_only:
            print(f"{stream.file}: stream '{stream.name}' is written as it should be.")  # noqa: T201
            continue
        try:
            metastore, target = _open_metastore(config, [stream])
            check_stream(metastore, stream)
            print(f"{stream.file}: stream '{stream.name}' fits its tables at {target}.")  # noqa: T201
        except LakelogError as error:
            print(error.message, file=sys.stderr)  # noqa: T201
            worst = max(worst, to_exit_status(error))
    return worst


def run(config: RunConfig, log: Logger) -> ExitStatus:
    """Runs streams until SIGTERM, or until all have ended; a second signal ends the process at once."""
    streams = read_streams(config.places)
    # Functions of sinks are in files beside their streams.
    let_workers_import(__file__, __package__ or "", sorted({stream.file.parent for stream in streams}))
    spark_log_file = choose_spark_log(config.spark_log_file, f"reader-{streams[0].name}", read_environment())
    # Java takes longest to start, so it starts while leases are taken and checks run.
    session = StartingSession(
        "lakelog-reader", config.spark_master, config.spark_conf, log_file=spark_log_file, has_user_functions=True
    )
    try:
        return _run_in(session, config, streams, log, str(spark_log_file or "standard error"))
    finally:
        session.discard()


def _run_in(
    session: StartingSession, config: RunConfig, streams: Sequence[Stream], log: Logger, spark_log_file: str
) -> ExitStatus:
    metastore, target = _open_metastore(config, streams)
    metrics = StreamMetrics()
    add_process_metrics(metrics.registry, READER)

    def fail(error: LakelogError) -> None:
        for runner in runners:
            runner.fail(error)

    def start_spark() -> SparkSession:
        spark = session.wait()
        watch_java(fail)
        lakelog.spark.install(spark, target)
        return spark

    shared = Shared(start_spark, warm_up if is_on_this_machine(config.spark_master) else None)
    runners = [_make_runner(config, stream, shared, metastore, metrics, log) for stream in streams]

    def is_ready() -> bool:
        # An instance whose streams all run elsewhere is ready: it takes them over at once, and a rollout waits for it.
        return all(runner.is_answered for runner in runners) and not shared.stopping.is_set()

    port = None
    if config.metrics_port is not None:
        port = serve_pages(config.metrics_host, config.metrics_port, metrics.registry, is_ready)
        log.info("metrics", port=port)
    _catch_signals(shared, runners)
    log.info(
        "starting",
        streams=[stream.name for stream in streams],
        target=target,
        process=os.getpid(),
        spark_log_file=spark_log_file,
    )

    def observe() -> Activity:
        state = ServiceState.RUNNING if any(runner.is_running for runner in runners) else ServiceState.STARTING
        return Activity(
            ServiceState.DRAINING if shared.stopping.is_set() else state, [stream.name for stream in streams]
        )

    presence = make_presence(READER, metastore, observe, log, host=config.metrics_host, port=port)
    with presence:
        return _run_all(streams, runners)


def _run_all(streams: Sequence[Stream], runners: Sequence[StreamRunner]) -> ExitStatus:
    exit_statuses: list[ExitStatus] = []
    threads = [
        threading.Thread(target=lambda runner=runner: exit_statuses.append(runner.run()), name=stream.name)
        for stream, runner in zip(streams, runners, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            # Signals are handled in between.
            thread.join(0.5)
    return max(exit_statuses, default=ExitStatus.FINE)


def _make_runner(
    config: RunConfig, stream: Stream, shared: Shared, metastore: Metastore, metrics: StreamMetrics, log: Logger
) -> StreamRunner:
    clock = SystemClock()
    own_log = log.bind(stream=stream.name)
    lock = CheckpointLock(stream.checkpoint)

    def make_lease(on_lost: Callable[[LakelogError], None]) -> LeaseRenewer:
        return LeaseRenewer(
            metastore,
            stream.lease,
            f"reader {socket.gethostname()} {os.getpid()}",
            duration_s=config.lease_s,
            max_unavailable_s=config.max_unavailable_s,
            clock=clock,
            log=own_log,
            on_lost=on_lost,
            lock=lock,
            work=f"stream '{stream.name}'",
        )

    return StreamRunner(
        stream,
        RunOptions(config.once, not config.no_wait, config.max_unavailable_s),
        shared,
        metastore=metastore,
        make_lease=make_lease,
        progress=StreamProgress(stream, metastore, metrics, own_log),
        clock=clock,
        log=own_log,
    )


def _open_metastore(config: RunConfig, streams: Sequence[Stream]) -> tuple[Metastore, str]:
    """The metastore and its address; connects with its first request."""
    targets = {stream.target for stream in streams} if config.target is None else {config.target}
    if len(targets) > 1:
        raise InvalidArgument(
            f"The streams name {len(targets)} targets: {', '.join(sorted(map(str, targets)))}. Run those of different "
            "metastores by processes of their own, or give --target.",
            reason="ARGUMENT",
        )
    connection = make_connection(next(iter(targets)), tls=None, tls_ca=None, tls_cert=None, tls_key=None, token=None)
    return open_metastore(connection), connection.target


def _catch_signals(shared: Shared, runners: Sequence[StreamRunner]) -> None:
    def stop() -> None:
        shared.stopping.set()
        for runner in runners:
            runner.wake()

    on_signals(stop, shared.stopping.is_set)
