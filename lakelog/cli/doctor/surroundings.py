"""Checks of what lakelog stands on: Postgres, Kafka, and the place for files."""

from __future__ import annotations

import secrets
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from lakelog.cli.doctor.check import Finding, fail, fine, skip, warn
from lakelog.cli.doctor.situation import DATABASE_WITHIN_S, Situation
from lakelog.cli.output.text import plural
from lakelog.embedded.services import service_command, service_environment
from lakelog.errors import AlreadyExists, LakelogError, PermissionDenied
from lakelog.extras import explain_missing
from lakelog.health.problem import cut
from lakelog.log.secrets import read_secrets
from lakelog.options.declared.kafka import KAFKA_SERVERS
from lakelog.privacy.redaction import blot_out
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.objects.stores import open_store

PROBES: Final = "_lakelog_doctor"
"""The folder of a warehouse in which checks make their objects. Tables are in folders named by 32 digits."""

_WITHIN_S: Final = 7.0
_MAX_CLUSTERS: Final = 3


def check_postgres(situation: Situation) -> Finding:
    """The database: directly, if it is named, or as the metastore reaches it."""
    if situation.database_url is None:
        if situation.serving.is_serving and not situation.has_database:
            summary = f"The metastore serves, but its database has not answered within {DATABASE_WITHIN_S:g} s."
            return fail(summary, "Check that Postgres runs, its load, and the network between both.")
        situation.catalog.overview()
        return fine("The metastore reaches its database.", "--database-url checks it directly.")
    remedy = "Check host, port, user and password of the URL, and that Postgres runs there: pg_isready -h HOST"
    with tempfile.TemporaryDirectory() as folder:
        # The metastore's own check: nothing else of lakelog knows Postgres.
        command = service_command("metastore", ["check", "--insecure-dev", "--warehouse", folder])
        own = {name: value for name, value in situation.environment.items() if not name.startswith("LAKELOG_")}
        environment = service_environment("metastore", own) | {"LAKELOG_DATABASE_URL": situation.database_url}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=_WITHIN_S, check=False
            )
        except subprocess.TimeoutExpired:
            return fail(f"The database, or this machine, took longer than {_WITHIN_S:g} s.", remedy)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return fail(blot_out(cut(lines[-1])), remedy)
    return fine("The database answers, and a metastore could serve it.")


def check_kafka(situation: Situation) -> Finding:
    """Brokers: whether they answer, and whether transactions are possible."""
    if situation.kafka is not None:
        clusters: list[Mapping[str, str]] = [{KAFKA_SERVERS.key: situation.kafka}]
    else:
        found = {}
        for log in situation.catalog.metastore.list_logs():
            if servers := log.options.get(KAFKA_SERVERS.key):
                found[servers] = log.options
        clusters = list(found.values())
    if not clusters:
        return skip("No table has a log in Kafka; --kafka names brokers to check.")
    try:
        from lakelog.log.kafka.probe import probe_brokers
    except ModuleNotFoundError as error:
        return fail(f"{explain_missing(error, 'Kafka', 'kafka')}.", 'pip install "lakelog[kafka]"')
    lines = []
    for options in clusters[:_MAX_CLUSTERS]:
        brokers = probe_brokers(options, read_secrets(situation.environment), _WITHIN_S / len(clusters[:_MAX_CLUSTERS]))
        lines.append(f"{options[KAFKA_SERVERS.key]}: {plural(brokers, 'broker')}")
    return fine(f"Kafka answers, and transactions are possible: {'; '.join(lines)}.")


def check_warehouse(situation: Situation) -> Finding:
    """The place for files: makes an object, refuses to make it twice, reads, lists and deletes it."""
    location = situation.warehouse
    if location is None:
        table = situation.find_table()
        if table is None:
            return skip("There is no table yet; --warehouse names the place to check.")
        location = table.location.rstrip("/").rpartition("/")[0]
    elif "://" not in location:
        location = Path(location).absolute().as_uri()
    base, question, query = location.partition("?")
    probes = f"{base.rstrip('/')}/{PROBES}/{question}{query}"
    if base.startswith("file:") and not Path(unquote(urlsplit(base).path)).is_dir():
        if situation.warehouse is not None:
            return fail(f"{base} is not a folder of this machine.", "Make it, or name another one by --warehouse.")
        return skip(f"{base} is not a folder of this machine.")
    # One try each: a check has little time, and shows what a first try meets.
    store = open_store(probes, replace(situation.invocation.settings.s3, attempts=1, timeout_s=_WITHIN_S))
    try:
        return _probe(store, base)
    except PermissionDenied as error:
        return _explain_refusal(situation, store, base, cut(error.message))


def _explain_refusal(situation: Situation, store: ObjectStore, base: str, why: str) -> Finding:
    """What it means that this caller may not write here: nothing for one that only reads, or gets keys for tables."""
    if _may_list(store):
        remedy = (
            "If it only reads, nothing is to be done. To write it needs the right to make and delete objects there."
        )
        return warn(f"This caller may list {base}, but not write there: {why}", remedy)
    has_keys = situation.invocation.settings.s3.access_key_id is not None
    if not has_keys and _vends_keys(situation):
        remedy = "Nothing is to be done: the metastore vends keys for tables, and only these are needed."
        return warn(f"This caller has no right of its own at {base}: {why}", remedy)
    if has_keys:
        remedy = (
            "Correct LAKELOG_S3_ACCESS_KEY_ID and LAKELOG_S3_SECRET_ACCESS_KEY (or AWS_*), or let them write there."
        )
        return fail(f"The keys of this caller are refused at {base}: {why}", remedy)
    return fail(f"This caller is refused at {base}: {why}", "Give keys by LAKELOG_S3_* or AWS_*, or the right to it.")


def _may_list(store: ObjectStore) -> bool:
    try:
        next(iter(store.list_objects()), None)
    except LakelogError:
        return False
    return True


def _vends_keys(situation: Situation) -> bool:
    """Whether the metastore vends keys for tables; False where that cannot be found out."""
    if situation.warehouse is not None or situation.invocation.settings.s3.credentials == "own":
        return False
    try:
        table = situation.find_table()
        return table is not None and situation.catalog.metastore.vend_read_credentials(table.table_uuid) is not None
    except LakelogError:
        return False


def _probe(store: ObjectStore, base: str) -> Finding:
    path = f"probe-{secrets.token_hex(8)}"
    content = path.encode()
    writer = store.create(path)
    try:
        writer.sink.write(content)
        writer.commit()
    finally:
        writer.abort()
    try:
        remedy = "Use a store that supports conditional writes (If-None-Match), or turn them on."
        if not _refuses_twice(store, path):
            return fail(f"{base} lets an object be made twice, so that writers could overwrite each other.", remedy)
        with store.open_input(path) as source:
            if source.read() != content:
                return fail(f"{base} returned other bytes than were written.", "Check the disk or the store.")
        if path not in {each.path for each in store.list_objects()}:
            return fail(f"{base} does not list an object that was just made.", "Use a store with consistent listings.")
    finally:
        store.delete(path)
        store.delete_empty_folders()
    return fine(f"Objects can be made once, read, listed and deleted at {base}.")


def _refuses_twice(store: ObjectStore, path: str) -> bool:
    try:
        writer = store.create(path)
        try:
            writer.sink.write(b"twice")
            writer.commit()
        finally:
            writer.abort()
    except AlreadyExists:
        return True
    return False
