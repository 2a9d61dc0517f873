"""`lakelog up`: all of lakelog on this machine, from its first start to the end of its last process."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import click

import lakelog
from lakelog.cli.failures import ExitCode
from lakelog.cli.input.arguments import Whole
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.printer import Printer
from lakelog.cli.output.text import clean_text, format_time
from lakelog.cli.up.broker_probe import check_brokers
from lakelog.cli.up.data_folder import DataFolder, choose_port, remove_ready_file, wait_for_port, write_ready_file
from lakelog.cli.up.kafka_choice import DEFAULT_KAFKA_PORT, choose_kafka
from lakelog.client.connection.target import DEFAULT_PORT, Target
from lakelog.errors import InvalidArgument, NotFound
from lakelog.privacy.process import keep_private

if TYPE_CHECKING:
    from lakelog.embedded.stack import EmbeddedStack

_LONGEST_WORDS: Final = 300
DEFAULT_CONSOLE_PORT: Final = 7480
_PIPELINE_SUFFIXES: Final = (".yaml", ".yml")
_FINAL_CODES: Final = {
    0: "it has read all that was there.",
    2: "its file, table or source do not fit. Correct that, then start `lakelog up` again.",
    6: "its checkpoint does not belong to its table or topic. Put the right one back, then start `lakelog up` again.",
}
"""Exit codes of the writer (docs/pipelines.md) after which another start would end in the same way."""
_WAITING_CODES: Final = {
    3: "a record or file of its source is bad. Repair it, and the pipeline goes on.",
    8: "its table or the folder of its source does not exist. Make it, and the pipeline begins.",
}
"""Exit codes of the writer after which another start helps once someone has done something."""
FIRST_COMMANDS: Final = (
    "database create shop",
    'table create shop.orders --primary-key id --schema "id BIGINT NOT NULL, item STRING, price DECIMAL(10, 2)"',
    "sql -e \"INSERT INTO shop.orders VALUES (1, 'tea', 3.50), (2, 'cup', 8.00)\"",
    "scan shop.orders",
)
"""What to try first. The table is the one of README.md, so that its lines go on from here."""
_CHECK_WITHIN_S: Final = 60.0
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
"""The beginning of a URI, also one with a slash too few: s3:/bucket is no folder that anyone means."""


_METRICS: Final = {
    f"LAKELOG_{service}_METRICS_PORT": "0" for service in ("COMPACTOR", "CONSOLE", "PUBLISHER", "READER", "WRITER")
}
"""Each service has its metrics and its health at a free port of this machine, where `lakelog doctor` asks for them."""


@click.command(
    cls=LakelogCommand, connects=False, example=("lakelog up --data ./lakelog-data --pipelines ./pipelines",)
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("lakelog-data"),
    show_default=True,
    metavar="DIR",
    help="The folder for all data.",
)
@click.option("--port", type=Whole(1, 65535), default=DEFAULT_PORT, show_default=True, help="The metastore's port.")
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="A loopback address of this machine."
)
@click.option("--metrics-port", type=Whole(1, 65535), help="The port of the metrics.  [default: a free one]")
@click.option(
    "--database-url",
    envvar="LAKELOG_DATABASE_URL",
    show_envvar=True,
    metavar="URL",
    help="Use your own Postgres, as postgresql://user@host/database.  [default: one in DIR]",
)
@click.option(
    "--warehouse", metavar="URI", help="The place for new tables, as s3://bucket/prefix.  [default: a folder in DIR]"
)
@click.option(
    "--s3-endpoint",
    envvar="LAKELOG_S3_ENDPOINT",
    show_envvar=True,
    metavar="URL",
    help="The endpoint of an S3 warehouse.",
)
@click.option(
    "--s3-region", envvar="LAKELOG_S3_REGION", show_envvar=True, metavar="REGION", help="The region of its bucket."
)
@click.option(
    "--s3-access-key-id",
    envvar="LAKELOG_S3_ACCESS_KEY_ID",
    show_envvar=True,
    metavar="KEY",
    help="The access key for it.",
)
@click.option(
    "--s3-secret-access-key",
    envvar="LAKELOG_S3_SECRET_ACCESS_KEY",
    show_envvar=True,
    metavar="SECRET",
    help="Prefer the variable: others on this machine can see options.",
)
@click.option(
    "--pipelines",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR|FILE",
    help="Pipeline files to run, or folders of them; repeatable.",
)
@click.option("--no-compactor", is_flag=True, help="Start no compactor: nothing is compacted, and nothing expires.")
@click.option("--reader", is_flag=True, help="Run the reader service, too: subscriptions without access to the files.")
@click.option("--no-console", is_flag=True, help="Start no console: there are no pages for a browser.")
@click.option(
    "--console-port", type=Whole(1, 65535), help=f"Its port.  [default: {DEFAULT_CONSOLE_PORT}, or a free one]"
)
@click.option("--kafka", is_flag=True, help="Run a Kafka broker, too, and a publisher: for tables with a log.")
@click.option("--kafka-port", type=Whole(1, 65535), help=f"The broker's port.  [default: {DEFAULT_KAFKA_PORT}]")
@click.option("--kafka-bootstrap-servers", metavar="HOST:PORT,...", help="Use your own Kafka instead.")
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    help="A JSON file that exists while everything runs, for scripts.",
)
@pass_invocation
def up(
    invocation: Invocation,
    data: Path,
    port: int,
    host: str,
    metrics_port: int | None,
    database_url: str | None,
    warehouse: str | None,
    s3_endpoint: str | None,
    s3_region: str | None,
    s3_access_key_id: str | None,
    s3_secret_access_key: str | None,
    pipelines: tuple[Path, ...],
    no_compactor: bool,
    reader: bool,
    no_console: bool,
    console_port: int | None,
    kafka: bool,
    kafka_port: int | None,
    kafka_bootstrap_servers: str | None,
    ready_file: Path | None,
) -> ExitCode:
    """Run lakelog on this machine until Ctrl-C.

    It starts Postgres, the metastore, a compactor, the console, a writer for each pipeline, and what options name. It
    restarts what dies, unless that cannot help. The data stays in DIR, and the next `lakelog up` uses it again. Logs
    are in DIR/logs; large ones are split into parts.
    """
    if not Target(host, port).is_loopback:
        raise InvalidArgument(
            f"--host {host} can be reached from elsewhere, and `lakelog up` has no TLS. Use a loopback address such as "
            "127.0.0.1; to serve others run the services with certificates, as docs/operations.md describes."
        )
    s3 = {
        "LAKELOG_S3_ENDPOINT": s3_endpoint,
        "LAKELOG_S3_REGION": s3_region,
        "LAKELOG_S3_ACCESS_KEY_ID": s3_access_key_id,
        "LAKELOG_S3_SECRET_ACCESS_KEY": s3_secret_access_key,
    }
    # This comes before any file is made; services inherit the umask.
    keep_private(os.environ)
    warehouse = _to_warehouse(warehouse)
    kafka_choice = choose_kafka(kafka, kafka_port, kafka_bootstrap_servers)
    files = find_pipeline_files(pipelines)
    check_pipeline_files(files)
    events = _Events(invocation.printer)
    if kafka_choice.servers is not None:
        for problem in check_brokers(kafka_choice.servers):
            events.report("warning", f"A Kafka broker of --kafka-bootstrap-servers cannot be reached: {problem}.")
    data = data.absolute()
    with DataFolder(data) as folder, _Signals() as signals:
        was_killed = folder.abandoned_by is not None
        if was_killed:
            events.report(
                "takeover", f"An earlier `lakelog up` (process {folder.abandoned_by}) was killed; taking over."
            )
        wait_for_port(host, port, patient=was_killed)
        if metrics_port is not None:
            wait_for_port(host, metrics_port, patient=was_killed, option="--metrics-port")
        if console_port is not None:
            wait_for_port(host, console_port, patient=was_killed, option="--console-port")
        if kafka_choice.port is not None:
            wait_for_port("127.0.0.1", kafka_choice.port, patient=was_killed, option="--kafka-port")
        from lakelog.embedded.stack import EmbeddedStack

        wanted = {
            "compactor": not no_compactor,
            "reader": reader,
            "console": not no_console,
            "publisher": kafka_choice.port is not None or kafka_choice.servers is not None,
        }
        services = ["metastore", *(service for service, is_wanted in wanted.items() if is_wanted)]
        stack = EmbeddedStack(
            data,
            services=services,
            host=host,
            port=port,
            metrics_port=metrics_port,
            console_port=console_port or choose_port(host, DEFAULT_CONSOLE_PORT),
            database_url=database_url,
            kafka=kafka_choice.port is not None,
            kafka_port=kafka_choice.port,
            kafka_bootstrap_servers=kafka_choice.servers,
            environment={**_METRICS, **os.environ, **{name: value for name, value in s3.items() if value}},
            warehouse=warehouse,
        )
        is_ready = False
        began_s = time.monotonic()
        events.report("starting", f"Starting in {data}, with logs in {data / 'logs'}.")
        try:
            with events.of_supervisor(stack):
                stack.start()
                for file in files:
                    _start_pipeline(stack, file)
                facts = _facts(stack, database_url is None, files)
                if ready_file is not None:
                    write_ready_file(ready_file, json.dumps(facts, indent=2) + "\n")
                is_ready = True
                events.ready(facts, time.monotonic() - began_s)
                while True:
                    stack.wait()
                    stack.step()
        except KeyboardInterrupt:
            return ExitCode.FINE if is_ready else ExitCode.INTERRUPTED
        finally:
            # From here on nothing interrupts; the running components are stopped in order.
            signals.ignore()
            if ready_file is not None:
                remove_ready_file(ready_file)
            events.report("stopping", "Stopping.")
            stack.stop()
            events.report("stopped", f"Stopped; the data is in {data}.")


def _to_warehouse(given: str | None) -> str | None:
    """The warehouse's URI as given, or for the path of a folder."""
    if given is None or given.startswith("s3://"):
        return given
    if _SCHEME.match(given) and not given.startswith("file:///"):
        raise InvalidArgument(
            f"--warehouse {given}: give s3://bucket/prefix, or a folder of this machine.",
            metadata={"field": "warehouse"},
        )
    folder = Path(unquote(given.removeprefix("file://"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder.as_uri()


def find_pipeline_files(places: Sequence[Path]) -> list[Path]:
    """The pipeline files in the given files and folders, each once; those of a folder are sorted by name.

    Raises:
        NotFound: A place does not exist, or a folder has no such files.
        InvalidArgument: Two files have the same name, which also names their logs.
    """
    files: list[Path] = []
    for place in places:
        if place.is_dir():
            found = sorted(file for file in place.iterdir() if file.suffix in _PIPELINE_SUFFIXES)
            if not found:
                raise NotFound(f"The folder {place} of --pipelines has no file that ends in .yaml or .yml.")
            files += found
        elif place.exists():
            files.append(place)
        else:
            raise NotFound(f"--pipelines {place}: there is no such file or folder.")
    files = list(dict.fromkeys(file.absolute() for file in files))
    by_name: dict[str, Path] = {}
    for file in files:
        other = by_name.setdefault(file.stem, file)
        if other != file:
            raise InvalidArgument(f"--pipelines: {other} and {file} have the same name; rename one of them.")
    return files


def check_pipeline_files(files: Sequence[Path]) -> None:
    """Lets the writer check the files alone, before anything is started for them.

    Raises:
        InvalidArgument: Files have mistakes; the message has all of them, a line for each.
    """
    if not files:
        return
    from lakelog.embedded.services import service_command, service_environment

    command = service_command("writer", ["check", "--file-only", *map(str, files)])
    environment = service_environment("writer", os.environ)
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_CHECK_WITHIN_S
    )
    if done.returncode != 0:
        problems = (
            done.stderr.strip() or f"the writer ended with exit code {done.returncode} when it checked the files."
        )
        raise InvalidArgument(f"Nothing was started, because of --pipelines:\n{problems}", reason="PIPELINE_FILE")


def _start_pipeline(stack: EmbeddedStack, file: Path) -> None:
    from lakelog.embedded.java import java_home

    environment = {"LAKELOG_TARGET": stack.target, "JAVA_HOME": str(java_home(os.environ))}
    stack.add_service(
        "writer",
        ["run", str(file)],
        name=f"writer-{file.stem}",
        environment=environment,
        final_codes=_FINAL_CODES,
        waiting_codes=_WAITING_CODES,
    )


def _facts(stack: EmbeddedStack, own_postgres: bool, files: Sequence[Path]) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "target": stack.target,
        "reader": stack.reader_target or None,
        "console": stack.console_url or None,
        "kafka": stack.kafka or None,
        "metrics_url": f"http://{stack.target.rpartition(':')[0]}:{stack.metrics_port}/metrics",
        "data": str(stack.folder),
        "warehouse": stack.warehouse,
        # An address from the user may hold a password.
        # In a form that psql accepts, too.
        "database_url": stack.database_url.replace("+psycopg", "", 1) if own_postgres else None,
        "logs": {name: str(path) for name, path in stack.logs.items()},
        "pipelines": [str(file) for file in files],
    }


class _Signals:
    """Makes the first Ctrl-C or SIGTERM a `KeyboardInterrupt` in the main thread, and ignores all later ones."""

    def __init__(self) -> None:
        self._is_over = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _Signals:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def ignore(self) -> None:
        """Ignores all signals from now on."""
        self._is_over = True

    def _receive(self, *_: object) -> None:
        if not self._is_over:
            self._is_over = True
            raise KeyboardInterrupt


class _Events:
    """Prints events, a line for each: for people with the time of day, for programs as a JSON object."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer

    def report(self, event: str, message: str, **more: Any) -> None:
        """Prints one event."""
        now_ms = time.time_ns() // 1_000_000
        with suppress(BrokenPipeError):
            # The reader of our events may be gone; the components must go on, and stop in order later.
            if self._printer.for_programs:
                record = {"time": format_time(now_ms), "event": event, "message": message, **more}
                self._printer.element(record, ("time", "event", "message"))
            else:
                self._printer.say(f"{time.strftime('%H:%M:%S')}  {message}")

    def ready(self, facts: dict[str, Any], seconds: float) -> None:
        """Prints that everything runs, the addresses, and what to try."""
        self.report("ready", f"lakelog {lakelog.__version__} runs, after {seconds:.1f} s.", **facts)
        if self._printer.for_programs:
            return
        target, is_s3 = facts["target"], facts["warehouse"].startswith("s3:")
        where = "" if facts["target"].endswith(f":{DEFAULT_PORT}") else f"-t {target} "
        url = facts["database_url"]
        postgres = "the one given by --database-url" if url is None else f"psql '{url}'"
        lines = [
            "",
            f"  Metastore  {target}  (no TLS, this machine only)",
            *([f"  Console    {facts['console']}"] if facts["console"] else []),
            f"  Metrics    {facts['metrics_url']}",
            f"  Postgres   {postgres}",
            f"  Tables     {facts['warehouse']}",
            *(["             others need LAKELOG_S3_* or AWS_* in their environment"] if is_s3 else []),
            f"  Logs       {Path(facts['data']) / 'logs'}",
            *([f"  Reader     {facts['reader']}"] if facts["reader"] else []),
            *([f"  Kafka      {facts['kafka']}"] if facts["kafka"] else []),
            *(f"  Pipeline   {file}" for file in facts["pipelines"]),
            "",
            "Try in another terminal:",
            *(f"  lakelog {where}{command}" for command in FIRST_COMMANDS),
            "In a clone the command is ./run lakelog instead of lakelog.",
            "",
            "Ctrl-C stops everything; the data stays.",
        ]
        with suppress(BrokenPipeError):
            self._printer.say("\n".join(lines))

    @contextmanager
    def of_supervisor(self, stack: EmbeddedStack) -> Iterator[None]:
        """Prints the supervisor's log lines while the context lasts."""
        handler = _EventHandler(self, stack)
        logger = logging.getLogger("lakelog.embedded")
        propagated, logger.propagate = logger.propagate, False
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.propagate = propagated


class _EventHandler(logging.Handler):
    def __init__(self, events: _Events, stack: EmbeddedStack) -> None:
        super().__init__(logging.INFO)
        self._events = events
        self._stack = stack

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a record's first line and, if a component ended by itself, its last words; its log has all."""
        message = record.getMessage().splitlines()[0].partition(" Its last words in ")[0]
        ended = getattr(record, "ended", None)
        if ended in self._stack.logs and not self._stack.was_killed(ended):
            words = find_last_words(self._stack.last_log_lines(ended))
            if words:
                message = f"{message.rstrip('.')}. It said: {clean_text(words)[:_LONGEST_WORDS]}"
        self._events.report("component", message)


def find_last_words(lines: Sequence[str]) -> str | None:
    """The one of a component's last log lines that may explain its end; None: none does. Pure.

    Lines of our services are JSON objects, of which only errors count; other lines are those of a failed runtime.
    """
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            if line.strip():
                return line.strip()
        elif record.get("level") in ("error", "critical"):
            return str(record.get("error") or record.get("event") or line)
    return None
