"""Checks of the metastore and the services around it: whether they answer, who we are to them, clocks, versions."""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import lakelog
from lakelog.cli.doctor.check import Finding, fail, fine, skip, warn
from lakelog.cli.doctor.situation import Situation
from lakelog.cli.output.text import format_age, plural
from lakelog.client.connection.target import parse_target
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument, LakelogError, PermissionDenied
from lakelog.format.jobs.presence import COMPACTOR, METASTORE, Liveness, Service
from lakelog.format.tables.grant import NO_GRANT
from lakelog.health.health import load_health
from lakelog.health.problem import Severity

SLOW_MS: Final = 200.0
"""A round trip within a datacentre takes a millisecond."""

SKEW_MS: Final = 2_000
LARGE_SKEW_MS: Final = 60_000
"""Signed tokens and requests to S3 are refused when clocks differ by minutes."""

SILENT_REMEDY: Final = "Read the metastore's log, look at its load, and start it again if it hangs."

_PAGE_WITHIN_S: Final = 2.0
_MAX_PAGES: Final = 50
_AT_ONCE: Final = 16
_MAX_PAGE_BYTES: Final = 4 << 20


def check_metastore(situation: Situation) -> Finding:
    """Whether the metastore serves, and how fast it answers."""
    found, address = situation.serving, situation.invocation.address
    if found.is_silent:
        return fail(f"What listens at {address} does not answer: {found.problem}", SILENT_REMEDY)
    if found.latency_ms is None:
        tls = "without TLS" if situation.invocation.tls is None else "with TLS"
        remedy = "lakelog up, or name another address by --target or LAKELOG_TARGET; --tls encrypts the connection."
        return fail(f"Nothing that is a metastore answers at {address} {tls}: {found.problem}", remedy)
    if not found.is_serving:
        return fail(f"The metastore at {address} is {found.state}. {found.problem}", "Check its log and its database.")
    latency = f"{found.latency_ms:.1f} ms"
    if found.latency_ms > SLOW_MS:
        return warn(f"The metastore at {address} serves, but takes {latency}.", "Check the network, and its load.")
    return fine(f"The metastore at {address} serves, and answers within {latency}.")


def check_token(situation: Situation) -> Finding:
    """Who this caller is to the metastore. Nothing is changed: each request names something that cannot exist."""
    metastore = situation.catalog.metastore
    try:
        role = find_role(metastore)
    except PermissionDenied as error:
        return fail(error.message, "Give a token by LAKELOG_TOKEN, --token-file or a catalog file.")
    if role != "user":
        may = {"admin": "do everything", "writer": "read and write all tables", "reader": "read all tables"}[role]
        return fine(f"This caller has the role {role}: it may {may}.")
    grants = metastore.list_grants()
    if not grants:
        remedy = "An owner or admin can grant: lakelog grant reader <database> --to <this caller>"
        return warn("This caller is known, but has neither a role nor a grant, so it sees nothing.", remedy)
    lines = [f"{each.level.name.lower()} of {each.database}{f'.{each.table}' if each.table else ''}" for each in grants]
    return fine(f"This caller has no role, and {plural(len(grants), 'grant')}.", *lines[:20])


def find_role(metastore: Metastore) -> str:
    """The role of this caller: `admin`, `writer`, `reader` or `user`.

    Raises:
        PermissionDenied: The metastore does not know the caller.
    """
    # Rights are checked before requests are.
    if _is_allowed(lambda: metastore.release_writer("")):
        return "admin"
    if _is_allowed(lambda: metastore.retry_job(0)):
        return "writer"
    return "reader" if _is_allowed(metastore.describe_queue) else "user"


def _is_allowed(request: Callable[[], object]) -> bool:
    try:
        request()
    except InvalidArgument:
        return True
    except PermissionDenied as error:
        if error.reason in (NO_GRANT, PermissionDenied.default_reason):
            return False
        raise
    return True


def check_clock(situation: Situation) -> Finding:
    """How far this machine's clock is from that of the metastore's database."""
    catalog = situation.catalog
    catalog.overview()
    before_ms = situation.now_ms()
    found = catalog.overview()
    return judge_clock(found.now_ms, before_ms, situation.now_ms())


def judge_clock(theirs_ms: int, before_ms: int, after_ms: int) -> Finding:
    """Judges the metastore's time by ours before and after the request. Pure."""
    if not theirs_ms:
        return skip("A caller without a grant does not learn the metastore's time.")
    skew_ms = (before_ms + after_ms) // 2 - theirs_ms
    surely_ms = abs(skew_ms) - (after_ms - before_ms) // 2
    said = f"{format_age(abs(skew_ms))} {'ahead of' if skew_ms > 0 else 'behind'}"
    remedy = "Let both machines keep time by NTP: timedatectl set-ntp true"
    if surely_ms > LARGE_SKEW_MS:
        return fail(f"This machine's clock is {said} that of the metastore's database.", remedy)
    if surely_ms > SKEW_MS:
        return warn(f"This machine's clock is {said} that of the metastore's database.", remedy)
    return fine(f"This machine's clock and that of the metastore's database differ by {max(surely_ms, 0)} ms at least.")


def check_versions(situation: Situation) -> Finding:
    """Whether this client and all services have one version."""
    present = [each for each in situation.services if each.liveness is not Liveness.GONE]
    own = lakelog.__version__
    lines = [f"{each.kind} on {each.host}: {each.version}" for each in present]
    others = sorted({each.version for each in present} - {own})
    metastores = sorted({each.version for each in present if each.kind == METASTORE} - {own})
    if metastores:
        said = f"This client is lakelog {own}, and the metastore {', '.join(metastores)}."
        return warn(said, "Install the metastore's version here, or upgrade it.", *lines)
    if others:
        return warn(
            f"Services of other versions run beside lakelog {own}: {', '.join(others)}.", "Upgrade them.", *lines
        )
    return fine(f"All have lakelog {own}.", *lines)


def check_services(situation: Situation) -> Finding:
    """Whether the services report, and answer on their own pages."""
    listed, successors = situation.services, situation.successors
    found = [each for each in listed if each.instance_id not in successors]
    pages = request_pages(found, "/healthz")
    wrong = [f"{_name(each)}: {each.liveness.value}" for each in found if each.liveness is not Liveness.PRESENT]
    silent = [f"{_name(each)} at {each.metrics}: {page}" for each, (status, page) in pages if status != 200]
    lines = [f"{_name(each)}: {_describe_life(each, successors)}" for each in listed]
    remedy = "Read the service's log, and start it again."
    if any(each.liveness is Liveness.GONE for each in found):
        return fail(f"Services are gone: {'; '.join(wrong)}.", remedy, *lines)
    if any(status == 503 for _, (status, _) in pages):
        return fail(f"Services cannot work now: {'; '.join(silent)}.", remedy, *lines)
    if wrong or silent:
        said = "; ".join((*wrong, *silent))
        return warn(
            f"Services do not answer as they should: {said}.", f"{remedy} Or let this machine reach them.", *lines
        )
    if COMPACTOR not in {each.kind for each in found}:
        return warn(
            "There is no compactor: nothing is compacted, and nothing expires.", "lakelog compactor run", *lines
        )
    if successors:
        said = ", ".join(_name(each) for each in listed if each.instance_id in successors)
        remedy = "They run again. Their logs, those of `lakelog up` and that of the system may say why they ended."
        return warn(f"Services ended without a word, and others were started in their place: {said}.", remedy, *lines)
    return fine(f"All {len(found)} report, and {len(pages)} answer on their own pages.", *lines)


def _describe_life(service: Service, successors: Mapping[str, Service]) -> str:
    successor = successors.get(service.instance_id)
    return f"{service.liveness.value}, {service.state.value if successor is None else f'replaced by {successor.pid}'}"


def check_metrics(situation: Situation) -> Finding:
    """Whether the metrics of services can be read, and whether any looks wrong."""
    pages = request_pages(
        [each for each in situation.services if each.instance_id not in situation.successors], "/metrics"
    )
    if not pages:
        return skip("No service has a page of metrics.")
    wrong = [
        f"{_name(each)}: {line}" for each, (status, page) in pages if status == 200 for line in judge_metrics(page)
    ]
    unread = [f"{_name(each)} at {each.metrics}: {page}" for each, (status, page) in pages if status != 200]
    if wrong:
        return warn(f"Metrics look wrong: {'; '.join(wrong[:5])}.", "lakelog status says more.", *wrong, *unread)
    if unread:
        return warn("Metrics cannot be read.", "Let Prometheus and this machine reach these pages.", *unread)
    return fine(f"The metrics of {plural(len(pages), 'service')} can be read, and none looks wrong.")


_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$", re.MULTILINE)
_FULL_SHARE: Final = 0.8
_OLD_S: Final = 300.0


def judge_metrics(page: str) -> list[str]:
    """What looks wrong in the metrics of a service. Pure."""
    samples = [(name, labels, _to_number(value)) for name, labels, value in _SAMPLE.findall(page)]
    if not samples:
        return ["there are no metrics on its page"]
    found = {name: value for name, labels, value in samples if not labels or labels == '{of=""}'}
    wrong = [f"{name}{labels} is no number" for name, labels, value in samples if value is None and "NaN" not in labels]
    files, most = found.get("process_open_fds"), found.get("process_max_fds")
    if files and most and files > most * _FULL_SHARE:
        wrong.append(f"{files:.0f} of {most:.0f} files that it may open are open")
    age_s = found.get("lakelog_metastore_waiting_work_age_seconds")
    if age_s is not None and age_s > _OLD_S:
        wrong.append(f"waiting work was measured {format_age(round(age_s * 1000))} ago")
    for name, labels, value in samples:
        if name == "lakelog_metastore_log_problems" and value:
            wrong.append(f"a log cannot be published: {labels}")
        elif name == "lakelog_metastore_jobs" and 'state="failed"' in labels and value:
            wrong.append(f"{value:.0f} jobs have failed: {labels}")
    return wrong


def _to_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if value != value else value


def check_problems(situation: Situation) -> Finding:
    """What `lakelog status` would name as wrong."""
    found = load_health(situation.catalog).problems
    lines = [f"{each.severity.value}: {each.summary} Try: {each.remedy}" for each in found]
    failed = [each for each in found if each.severity is Severity.FAILED]
    if failed:
        return fail(f"{failed[0].summary} In all {plural(len(found), 'problem')}.", failed[0].remedy, *lines)
    if found:
        return warn(f"{found[0].summary} In all {plural(len(found), 'problem')}.", found[0].remedy, *lines)
    return fine("Nothing is wrong with tables, jobs, logs, consumers and pipelines.")


def request_pages(services: Sequence[Service], path: str) -> list[tuple[Service, tuple[int, str]]]:
    """A page of each service that has some, with its status; status 0: no answer, and the text says why."""
    asked = [each for each in services if each.metrics and each.liveness is not Liveness.GONE][:_MAX_PAGES]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(zip(asked, threads.map(lambda each: _request_page(each.metrics, path), asked), strict=True))


def _request_page(address: str, path: str) -> tuple[int, str]:
    try:
        target = parse_target(address)
        connection = http.client.HTTPConnection(target.host, target.port, timeout=_PAGE_WITHIN_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read(_MAX_PAGE_BYTES).decode(errors="replace")
            return answer.status, text if answer.status == 200 else f"status {answer.status}"
        finally:
            connection.close()
    except (LakelogError, OSError, http.client.HTTPException) as error:
        return 0, f"no answer ({error.strerror if isinstance(error, OSError) and error.strerror else error})"


def _name(service: Service) -> str:
    return f"{service.kind} {service.pid} on {service.host}"
