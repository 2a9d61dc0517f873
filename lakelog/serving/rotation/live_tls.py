"""The server's certificate, its key and the authority of clients, as they change while the server runs.

A connection keeps what it has begun with. Each new one gets the files that are in use then. So no connection breaks,
and a certificate that is about to expire is replaced by writing another one into its file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from lakelog.clock import Clock, show_time
from lakelog.serving.listening import ServerTls

from .watched import NamedFile, WatchedFiles

R = TypeVar("R")

_SKEW_S: Final = 60.0
"""How far the clocks of the authority and of this machine may differ."""

_WARN_FOR_S: Final = 14 * 86_400.0
_WARN_PART: Final = 0.2
"""A line warns of the end of a certificate in the last fifth of its life, or the last two weeks if that is shorter."""

_WARN_AGAIN_S: Final = 86_400.0


@dataclass(frozen=True)
class _Loaded:
    configuration: grpc.ServerCertificateConfiguration
    begins_s: float
    ends_s: float


class LiveTls:
    """The TLS of a server. Its files are read at once, and again by what watches `files`.

    Args:
        tls: The files.
        clock: Gives the time.

    Raises:
        InvalidArgument: A file cannot be used.
    """

    def __init__(self, tls: ServerTls, clock: Clock) -> None:
        self._requires_clients = tls.client_ca is not None
        self._clock = clock
        self._loaded: _Loaded | None = None
        self._lock = threading.Lock()
        self._is_new = False
        self._warned_at_s: float | None = None
        self._key = NamedFile(tls.key, "tls-key", "file")
        self._certificate = NamedFile(tls.certificate, "tls-cert", "file")
        files = [self._key, self._certificate]
        self._client_ca = NamedFile(tls.client_ca, "tls-client-ca", "file") if tls.client_ca is not None else None
        if self._client_ca is not None:
            files.append(self._client_ca)
        self.files: Final = WatchedFiles("tls-cert", files, self._prepare, self._use)
        self.files.load()

    def load_credentials(self) -> grpc.ServerCredentials:
        """Credentials that follow the files. Once, for one server."""
        loaded = self._present()
        self._is_new = False
        # The types leave out that None is possible.
        fetch: Any = self._fetch
        return grpc.dynamic_ssl_server_credentials(
            loaded.configuration, fetch, require_client_authentication=self._requires_clients
        )

    def remaining_s(self) -> float:
        """Seconds until the certificate expires; negative after that. Any thread may call this."""
        return self._present().ends_s - self._now_s()

    def find_warning(self) -> str | None:
        """What to say about the end of the certificate, at most once a day."""
        loaded, now_s = self._present(), self._now_s()
        left_s = loaded.ends_s - now_s
        if left_s >= min(_WARN_FOR_S, _WARN_PART * (loaded.ends_s - loaded.begins_s)):
            return None
        if self._warned_at_s is not None and 0 <= now_s - self._warned_at_s < _WARN_AGAIN_S:
            return None
        self._warned_at_s = now_s
        end = show_time(int(loaded.ends_s * 1000)).partition(" ")[0]
        verb = "expires" if left_s > 0 else "has expired"
        return f"The {self._certificate} {verb} at {end}. Write a new one, with its key, into its place (--tls-cert)."

    def _present(self) -> _Loaded:
        assert self._loaded is not None
        return self._loaded

    def _now_s(self) -> float:
        return self._clock.now_ms() / 1000

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        # gRPC calls this from threads of its own, before each handshake. None: go on with what it has.
        with self._lock:
            if not self._is_new:
                return None
            self._is_new = False
            return self._present().configuration

    def _use(self, loaded: _Loaded) -> None:
        with self._lock:
            self._loaded = loaded
            self._is_new = True
            self._warned_at_s = None

    def _prepare(self, contents: Sequence[bytes]) -> _Loaded:
        key, certificate = contents[:2]
        chain = self._read_chain(certificate)
        self._check_pair(key, chain[0])
        begins_s, ends_s = (
            moment.timestamp() for moment in (chain[0].not_valid_before_utc, chain[0].not_valid_after_utc)
        )
        if self._now_s() >= ends_s:
            end = show_time(int(ends_s * 1000)).partition(" ")[0]
            raise self._certificate.refuse(f"has expired at {end}")
        if self._now_s() < begins_s - _SKEW_S:
            begin = show_time(int(begins_s * 1000)).partition(" ")[0]
            raise self._certificate.refuse(f"is not valid before {begin}; does the clock of this machine go right?")
        roots = None
        if self._client_ca is not None:
            roots = contents[2]
            _load(lambda: x509.load_pem_x509_certificates(contents[2]), self._client_ca, "certificates")
        configuration = grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=roots)
        return _Loaded(configuration, begins_s, ends_s)

    def _read_chain(self, certificate: bytes) -> Sequence[x509.Certificate]:
        return _load(lambda: x509.load_pem_x509_certificates(certificate), self._certificate, "certificates")

    def _check_pair(self, key: bytes, certificate: x509.Certificate) -> None:
        private = _load(lambda: load_pem_private_key(key, None), self._key, "an unencrypted private key")
        form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if private.public_key().public_bytes(*form) != certificate.public_key().public_bytes(*form):
            raise self._key.refuse(
                f"is not the key of the certificate {self._certificate.path} (--tls-cert): write both files anew"
            )


def _load(load: Callable[[], R], file: NamedFile, what: str) -> R:
    try:
        return load()
    # TypeError: the key is encrypted.
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise file.refuse(f"does not hold {what} in PEM format") from None
