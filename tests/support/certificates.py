"""Certificates for tests, made with the openssl command."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path


class TestAuthority:
    """Signs certificates for 127.0.0.1."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("the openssl command is needed to make certificates")
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.ca = Pair(folder / "ca.pem", folder / "ca.key")
        self._run("req", "-x509", *self._new_key(self.ca), "-days", "2", "-subj", "/CN=test authority")

    def issue(self, common_name: str, *, days: int = 2) -> Pair:
        """A certificate for 127.0.0.1 with a common name; it ends in so many days, or has ended so many days ago."""
        pair = Pair(self._folder / f"{common_name}.pem", self._folder / f"{common_name}.key")
        request, extensions = self._folder / f"{common_name}.csr", self._folder / "extensions"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        self._run("req", *self._new_key(Pair(request, pair.key)), "-subj", f"/CN={common_name}")
        authority = ["-CA", str(self.ca.certificate), "-CAkey", str(self.ca.key), "-CAcreateserial"]
        self._run(
            "x509", "-req", "-in", str(request), "-out", str(pair.certificate), "-days", str(days),
            "-extfile", str(extensions), *authority,
        )  # fmt: skip
        return pair

    @staticmethod
    def _new_key(pair: Pair) -> list[str]:
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        return [*curve, "-keyout", str(pair.key), "-out", str(pair.certificate)]

    @staticmethod
    def _run(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
