"""Makes the Secrets of a lakelog in one namespace: passwords, tokens, and certificates for TLS. Runs as a Job.

A Secret that exists stays as it is, so a second run changes nothing, and one after a crash goes on: first come the
Secrets that others follow from, and these are read again. Do not delete a single Secret to change it: a token must
also be in `caller-tokens`, Postgres keeps the password of its first start, and a new authority signs no certificate
that exists. docs/kubernetes.md says how to change each.
"""

from __future__ import annotations

import argparse
import base64
import datetime
import ipaddress
import json
import os
import secrets
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ROLES = {
    "admin": "admin",
    "writer": "writer",
    "publisher": "writer",
    "compactor": "writer",
    "streams": "writer",
    "reader": "reader",
}
"""The callers, each with a token of its own, and their roles (docs/operations.md, "Who gets in")."""

SERVERS = ("metastore", "reader", "console")
LIFETIME = datetime.timedelta(days=3650)
"""Nothing renews them; where that is not enough, cert-manager does it."""

Data = Mapping[str, str]


class Cluster:
    """The Secrets of a namespace, through the API of Kubernetes with the token of a service account.

    Args:
        api: The API's URL.
        account: The folder with the token and the API's certificate.
        namespace: The namespace.
    """

    def __init__(self, api: str, account: Path, namespace: str) -> None:
        self._url = f"{api}/api/v1/namespaces/{namespace}/secrets"
        self._account = account

    def read(self, name: str) -> Data:
        """A Secret that exists."""
        found = self._send("GET", f"{self._url}/{name}")["data"]
        return {key: base64.b64decode(value).decode() for key, value in found.items()}

    def create(self, name: str, data: Data, kind: str = "Opaque") -> bool:
        """Makes a Secret; False: there is one of that name, which stays."""
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": kind,
            "metadata": {
                "name": name,
                "labels": {"app.kubernetes.io/part-of": "lakelog", "app.kubernetes.io/managed-by": "credentials"},
            },
            "stringData": dict(data),
        }
        try:
            self._send("POST", self._url, json.dumps(secret).encode())
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise
            return False
        return True

    def _send(self, method: str, url: str, body: bytes | None = None) -> dict[str, dict[str, str]]:
        # Read each time: the token is renewed while the pod runs.
        token = (self._account / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, body, headers, method=method)
        context = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            found: dict[str, dict[str, str]] = json.load(answer)
        return found


def make_all(cluster: Cluster, namespace: str) -> None:
    """Makes what is missing, in an order in which each attempt can go on with what an earlier one has left."""

    def keep(name: str, make: Callable[[], Data]) -> Data:
        made = make()
        return made if _report(name, cluster.create(name, made)) else cluster.read(name)

    authority = keep("certificate-authority", make_authority)
    tokens = keep("caller-tokens", make_tokens)
    password = keep("postgres-password", lambda: {"password": secrets.token_hex(24)})
    keys = {
        "LAKELOG_S3_ACCESS_KEY_ID": secrets.token_hex(10),
        "LAKELOG_S3_SECRET_ACCESS_KEY": secrets.token_hex(24),
    }
    made: dict[str, Data] = {"warehouse-credentials": keys}
    for server in SERVERS:
        made[f"{server}-tls"] = make_certificate(authority, server, namespace)
    for name, token in read_tokens(tokens).items():
        made[f"{name}-token"] = {"token": token}
    # Last, so that the metastore, which needs it, starts when everything is there.
    url = f"postgresql://lakelog:{password['password']}@postgres:5432/lakelog"
    made["metastore-database"] = {"url": url}
    for name, data in made.items():
        kind = "kubernetes.io/tls" if name.endswith("-tls") else "Opaque"
        _report(name, cluster.create(name, data, kind))


def make_tokens() -> Data:
    """A token file of the metastore with a caller for each service."""
    return {"tokens": "".join(f"{name} {role} {secrets.token_hex(32)}\n" for name, role in ROLES.items())}


def read_tokens(file: Data) -> dict[str, str]:
    """The tokens of a token file by their callers. Pure."""
    return {line.split()[0]: line.split()[2] for line in file["tokens"].splitlines()}


def make_authority() -> Data:
    """A certificate authority for this installation alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lakelog")])
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _begin(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return {"ca.crt": _to_pem(certificate), "ca.key": _key_pem(key)}


def make_certificate(authority: Data, server: str, namespace: str) -> Data:
    """A server's certificate under all its names in the cluster, and those of a forwarded port."""
    signer = x509.load_pem_x509_certificate(authority["ca.crt"].encode())
    signing_key = serialization.load_pem_private_key(authority["ca.key"].encode(), None)
    if not isinstance(signing_key, ec.EllipticCurvePrivateKey):
        raise ValueError("The Secret certificate-authority holds no EC key: delete it, and apply again.")
    key = ec.generate_private_key(ec.SECP256R1())
    names = [server, f"{server}.{namespace}", f"{server}.{namespace}.svc", f"{server}.{namespace}.svc.cluster.local"]
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in (*names, "localhost")]
    alternatives.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    identity = x509.SubjectKeyIdentifier.from_public_key(signer.public_key())
    certificate = (
        _begin(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, server)]), signer.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identity), critical=False)
        .sign(signing_key, hashes.SHA256())
    )
    return {"tls.crt": _to_pem(certificate), "tls.key": _key_pem(key), "ca.crt": authority["ca.crt"]}


def _begin(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    # A minute earlier, for clocks that are a little late.
    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _to_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def _report(name: str, is_made: bool) -> bool:
    sys.stdout.write(f"Secret {name}: {'made' if is_made else 'was there, left as it is'}\n")
    return is_made


def main() -> int:
    """Tries for two minutes, as the rights of a new account take a moment to hold."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    parser = argparse.ArgumentParser(description="Make the Secrets of lakelog that are missing.")
    parser.add_argument("--api", default=f"https://{f'[{host}]' if ':' in host else host}:{port}")
    parser.add_argument("--account", type=Path, required=True)
    parser.add_argument("--namespace", required=True)
    given = parser.parse_args()
    give_up_s = time.monotonic() + 120
    while True:
        try:
            make_all(Cluster(given.api, given.account, given.namespace), given.namespace)
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError) or time.monotonic() > give_up_s:
                sys.stderr.write(f"credentials: the Secrets cannot be made: {error}\n")
                return 1
            time.sleep(2)
        else:
            return 0


if __name__ == "__main__":
    sys.exit(main())
