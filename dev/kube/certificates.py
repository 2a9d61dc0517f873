"""Certificates for the cluster's own endpoints, which only the API server calls."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_certificate(folder: Path, address: str) -> tuple[Path, Path]:
    """Makes a certificate for an address, which signs itself. Returns the files of certificate and key."""
    folder.mkdir(parents=True, exist_ok=True)
    key, certificate = folder / "tls.key", folder / "tls.crt"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={address}"),
            *("-addext", f"subjectAltName=IP:{address}", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key
