"""`python -m writer run | check | publish`: the command line of the service."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lakelog.errors import LakelogError
from lakelog.extras import explain_missing

try:
    from lakelog.serving.logs import set_up_logs
    from lakelog.serving.stopping import leave, on_signals
    from lakelog.without_pandas import leave_pandas_out

    from .config import Config, parse_config, read_environment
    from .ending import Ending, to_ending
    from .pipeline.reading import read_pipeline
    from .pipeline.spec import Pipeline
    from .publishing.config import PublishConfig
except ModuleNotFoundError as error:
    sys.exit(f"writer: {explain_missing(error, 'The writer', 'embedded')}")


def main(arguments: Sequence[str]) -> int:
    """Runs a command; returns the exit code (`writer.ending`)."""
    leave_pandas_out()
    try:
        config = parse_config(arguments, read_environment())
        if isinstance(config, PublishConfig):
            return _publish(config)
        if config.command == "check":
            return next((ending for ending in [_check(config, file) for file in config.pipeline_files] if ending), 0)
        return _run(config, read_pipeline(config.pipeline_files[0]))
    except LakelogError as error:
        return _tell(error)
    except ModuleNotFoundError as error:
        # Of Spark, which is imported late.
        print(f"writer: {explain_missing(error, 'The writer', 'embedded')}", file=sys.stderr)  # noqa: T201
        return Ending.INVALID


def _tell(error: LakelogError) -> Ending:
    print(error.message, file=sys.stderr)  # noqa: T201
    return to_ending(error)


def _check(config: Config, file: Path) -> Ending:
    try:
        pipeline = read_pipeline(file)
        if config.file_only:
            print(f"{pipeline.file}: pipeline '{pipeline.name}' is written as it should be.")  # noqa: T201
            return Ending.FINE
        from .wiring import check_pipeline, open_catalog

        metastore, target = open_catalog(config, pipeline)
        info, _ = check_pipeline(metastore, pipeline)
    except LakelogError as error:
        return _tell(error)
    print(f"{pipeline.file}: pipeline '{pipeline.name}' fits table {info.name} of {target}.")  # noqa: T201
    return Ending.FINE


def _run(config: Config, pipeline: Pipeline) -> int:
    # Not above: it imports Spark, which takes longer than to say what is wrong with a file.
    from .wiring import make_events, make_service, open_catalog

    log = set_up_logs(config.log_level, pipeline=pipeline.name)
    events = make_events()

    def stop() -> None:
        events.stopping.set()
        events.wake.set()

    on_signals(stop, events.stopping.is_set)
    metastore, target = open_catalog(config, pipeline)
    log.info("starting", table=pipeline.table, source=pipeline.source.description, target=target, process=os.getpid())
    return make_service(config, pipeline, metastore, target, events, log).run()


def _publish(config: PublishConfig) -> int:
    # Not above: it imports Kafka's client, which pipelines of files do without.
    from lakelog.log.secrets import read_secrets

    from .publishing.wiring import make_service

    log = set_up_logs(config.log_level, service="publisher")
    service = make_service(config, read_secrets(read_environment()), log)
    on_signals(service.stop, lambda: service.is_stopping)
    try:
        service.run()
    except LakelogError as error:
        log.error("publishing ends", error=error.message, reason=error.reason)
        return to_ending(error)
    return Ending.FINE


if __name__ == "__main__":
    # SUBTLE: Spark's threads and its Java process, and those of publishers, would keep a plain return waiting.
    leave(main(sys.argv[1:]))
