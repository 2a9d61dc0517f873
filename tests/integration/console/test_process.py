"""The console as a process of its own: how it starts, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from lakelog.format.jobs.presence import CONSOLE
from lakelog.sdk.catalog import Catalog
from tests.support.certificates import TestAuthority
from tests.support.running_console import token_of


def start(target: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "LAKELOG_TARGET": target, "LAKELOG_TOKEN": token_of("root")}
    command = [sys.executable, "-m", "console", "serve", "--listen", "127.0.0.1:0", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_signal_ends_it_in_good_order(target: str, catalog: Catalog) -> None:
    process = start(target, "--insecure-dev")
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("console ready on http://127.0.0.1:")
        deadline_s = time.monotonic() + 60
        while not is_reported(catalog) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert is_reported(catalog)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0
        assert '"event": "stopped"' in log
        assert not is_reported(catalog), "it would count as a service that is gone"
    finally:
        process.kill()


def is_reported(catalog: Catalog) -> bool:
    return any(each.kind == CONSOLE for each in catalog.metastore.list_services())


def test_a_key_of_another_certificate_is_refused_before_it_says_that_it_is_ready(target: str, tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    certificate, key = str(authority.issue("one").certificate), str(authority.issue("other").key)
    process = start(target, "--tls-cert", certificate, "--tls-key", key)
    try:
        out, log = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 2
    assert out == ""
    assert "--tls-cert and --tls-key cannot be used: KEY_VALUES_MISMATCH" in log
    assert len(log.splitlines()) == 1
