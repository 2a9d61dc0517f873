"""The command line of the service: `run | check | publish`; see `lakelog.cli.services`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lakelog.errors import LakelogError
from lakelog.extras import explain_missing
from lakelog.privacy.process import keep_private
from lakelog.privacy.redaction import blot_out

try:
    from lakelog.format.jobs.presence import PUBLISHER, WRITER
    from lakelog.serving.logging_setup import Logger, set_up_logging
    from lakelog.serving.stopping import leave, on_signals
    from lakelog.tracing import spans
    from lakelog.without_pandas import leave_pandas_out

    from .config import Config, parse_config, read_environment
    from .exit_status import ExitStatus, to_exit_status
    from .pipeline.reading import read_pipeline
    from .pipeline.spec import Pipeline
    from .publishing.config import PublishConfig
except ModuleNotFoundError as error:
    sys.exit(f"writer: {explain_missing(error, 'The writer', 'embedded')}")

if TYPE_CHECKING:
    from lakelog.spark.session.session import PendingSession


def main(arguments: Sequence[str]) -> int:
    """Runs a command; returns the exit code (`writer.exit_status`)."""
    leave_pandas_out()
    try:
        keep_private(read_environment())
        config = parse_config(arguments, read_environment())
        if isinstance(config, PublishConfig):
            return _publish(config)
        if config.command == "check":
            return next(
                (
                    exit_status
                    for exit_status in [_check(config, file) for file in config.pipeline_files]
                    if exit_status
                ),
                0,
            )
        return _run(config, read_pipeline(config.pipeline_files[0]))
    except LakelogError as error:
        return _report_error(error)
    except ModuleNotFoundError as error:
        # An error of Spark, which is imported late.
        print(f"writer: {explain_missing(error, 'The writer', 'embedded')}", file=sys.stderr)  # noqa: T201
        return ExitStatus.INVALID


def _report_error(error: LakelogError) -> ExitStatus:
    print(blot_out(error.message), file=sys.stderr)  # noqa: T201
    return to_exit_status(error)


def _check(config: Config, file: Path) -> ExitStatus:
    try:
        pipeline = read_pipeline(file)
        if config.file_only:
            print(f"{pipeline.file}: pipeline '{pipeline.name}' is written as it should be.")  # noqa: T201
            return ExitStatus.FINE
        from .wiring import check_pipeline, open_catalog

        metastore, target = open_catalog(config, pipeline)
        info, _ = check_pipeline(metastore, pipeline)
    except LakelogError as error:
        return _report_error(error)
    print(f"{pipeline.file}: pipeline '{pipeline.name}' fits table {info.name} of {target}.")  # noqa: T201
    return ExitStatus.FINE


def _run(config: Config, pipeline: Pipeline) -> int:
    # Not above: checking a file needs neither Spark nor Java.
    from lakelog.serving.streams.spark_log_file import choose_spark_log
    from lakelog.serving.streams.spark_process import let_workers_import
    from lakelog.spark.session.session import StartingSession

    log = set_up_logging(config.log_level, pipeline=pipeline.name)
    spans.start(WRITER, read_environment())
    spark_log_file = choose_spark_log(config.spark_log_file, f"pipeline-{pipeline.name}", read_environment())
    let_workers_import(__file__, __package__ or "")
    # Java takes longest to start, so it starts while imports, the lease and the checks run.
    session = StartingSession(
        f"lakelog-{pipeline.name}", config.spark_master, config.spark_conf, log_file=spark_log_file
    )
    try:
        return _run_in(session, config, pipeline, log, str(spark_log_file or "standard error"))
    finally:
        session.discard()


def _run_in(session: PendingSession, config: Config, pipeline: Pipeline, log: Logger, spark_log_file: str) -> int:
    from .wiring import make_events, make_service, open_catalog

    events = make_events()

    def stop() -> None:
        events.stopping.set()
        events.wake.set()

    on_signals(stop, events.stopping.is_set)
    metastore, target = open_catalog(config, pipeline)
    log.info(
        "starting",
        table=pipeline.table,
        source=pipeline.source.description,
        target=target,
        process=os.getpid(),
        spark_log_file=spark_log_file,
    )
    service, presence = make_service(config, pipeline, metastore, target, events, session, log)
    with presence:
        return service.run()


def _publish(config: PublishConfig) -> int:
    # Not above: it imports the Kafka client, which pipelines of files do not need.
    from lakelog.log.secrets import read_secrets

    from .publishing.wiring import make_service

    log = set_up_logging(config.log_level, service="publisher")
    spans.start(PUBLISHER, read_environment())
    service, presence = make_service(config, read_secrets(read_environment()), log)
    on_signals(service.stop, lambda: service.is_stopping)
    try:
        with presence:
            service.run()
    except LakelogError as error:
        log.error("publishing ends", error=error.message, reason=error.reason)
        return to_exit_status(error)
    return ExitStatus.FINE


if __name__ == "__main__":
    # SUBTLE: Spark's threads and its Java process, and those of publishers, would delay a plain return.
    leave(main(sys.argv[1:]))
