"""`python -m writer run pipeline.yaml`: the command line of the service."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from lakelog.errors import LakelogError
from lakelog.extras import explain_missing

try:
    from .config import Config, parse_config, read_environment
    from .ending import Ending, to_ending
    from .logs import set_up_logs
    from .pipeline.reading import read_pipeline
    from .pipeline.spec import Pipeline
    from .wiring import check_pipeline, make_events, make_service, open_catalog
except ModuleNotFoundError as error:
    sys.exit(f"writer: {explain_missing(error, 'The writer', 'embedded')}")


def main(arguments: Sequence[str]) -> int:
    """Runs a command; returns the exit code (`writer.ending`)."""
    try:
        config = parse_config(arguments, read_environment())
        pipeline = read_pipeline(config.pipeline_file)
        return _check(config, pipeline) if config.command == "check" else _run(config, pipeline)
    except LakelogError as error:
        print(error.message, file=sys.stderr)  # noqa: T201
        return to_ending(error)


def _check(config: Config, pipeline: Pipeline) -> int:
    metastore, target = open_catalog(config, pipeline)
    info, _ = check_pipeline(metastore, pipeline)
    print(f"{pipeline.file}: pipeline '{pipeline.name}' fits table {info.name} of {target}.")  # noqa: T201
    return Ending.FINE


def _run(config: Config, pipeline: Pipeline) -> int:
    log = set_up_logs(config.log_level, pipeline.name)
    events = make_events()

    def stop(number: int, _frame: object) -> None:
        if events.stopping.is_set():
            # Asked twice: at once. Whatever is in hand is repeated by the next run, and applied once.
            os._exit(128 + number)
        events.stopping.set()
        events.wake.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    metastore, target = open_catalog(config, pipeline)
    log.info("starting", table=pipeline.table, source=str(pipeline.source.path), target=target, process=os.getpid())
    return make_service(config, pipeline, metastore, target, events, log).run()


if __name__ == "__main__":
    # SUBTLE: Spark's threads and its Java process would keep a plain return waiting; everything is closed by now.
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
