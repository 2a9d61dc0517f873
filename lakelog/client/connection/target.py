"""Where a metastore is and how to talk to it: target, TLS files, token. Pure except for reading the TLS files."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakelog.client.connection.tokens import TOKEN, Token
from lakelog.errors import InvalidArgument
from lakelog.privacy.redaction import blot_out_forms

if TYPE_CHECKING:
    import grpc

DEFAULT_PORT: Final = 7450
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9.])?")


@dataclass(frozen=True)
class Target:
    """A host and a port. `str` gives the form in which targets are written: `host:port`, IPv6 hosts in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether everything sent there stays on this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_target(text: str) -> Target:
    """Reads a target. Pure.

    Args:
        text: `host:port`, for instance `localhost:7450`, `10.0.0.7:7450` or `[::1]:7450`.

    Raises:
        InvalidArgument: It is a URL, lacks a port, or has an invalid host or port; the message shows the right form.
    """
    form = f"Write host:port, for instance localhost:{DEFAULT_PORT}"
    if "/" in text:
        rest = re.sub(r"^[A-Za-z0-9+.-]*:/*", "", text).split("/", 1)[0].rpartition("@")[2]
        example = f", here perhaps {rest}" if rest and ":" in rest else ""
        raise _refused("a URL" if "://" in text else "a path", text, f"{form}{example}")
    host, colon, port_text = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or (":" in host and not bracketed) or (not bracketed and text.endswith("]")):
        is_address = text.count(":") > 1
        written = f"[{text.strip('[]')}]:{DEFAULT_PORT}" if is_address else f"{text or 'localhost'}:{DEFAULT_PORT}"
        raise _refused("without a port", text, f"{form}, here perhaps {written}")
    host = host[1:-1] if bracketed else host
    if not (port_text.isascii() and port_text.isdigit() and 0 < int(port_text[:6]) < 65536):
        raise _refused("without a valid port (1 to 65535)", text, form)
    if not (_is_ipv6(host) if bracketed else _HOST.fullmatch(host)):
        raise _refused("without a valid host", text, form)
    return Target(host, int(port_text))


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _refused(problem: str, text: str, remedy: str) -> InvalidArgument:
    # All that stands before an @ may be a password.
    shown = ascii(blot_out_forms(re.sub(r"//[^/@]*@", "//***@", text))[:200])
    message = blot_out_forms(f"The target {shown} is {problem}. {remedy}.")
    return InvalidArgument(message, metadata={"field": "target"})


@dataclass(frozen=True)
class TlsFiles:
    """PEM files for a connection by TLS.

    Args:
        ca: Certificates that must have signed the server's; None: those that come with gRPC.
        certificate: The client's own certificate with its chain, for servers that ask for one; None: none.
        key: The private key of `certificate`; give both or neither.
        origin: What names the files, for messages; empty: the caller.
    """

    ca: str | os.PathLike[str] | None = None
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    origin: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise InvalidArgument(
                f"Of the client's TLS certificate and key only one is given{_named_by(self.origin)}. Give both files, "
                "or none.",
                metadata={"field": "tls"},
            )

    def find_state(self) -> tuple[tuple[int, int, int] | None, ...]:
        """What changes when a file is replaced; None for a file that cannot be found."""
        return tuple([_find_state(path) for path in (self.ca, self.certificate, self.key) if path is not None])

    def load_credentials(self) -> grpc.ChannelCredentials:
        """Reads the files.

        Raises:
            InvalidArgument: A file cannot be read; the message names it.
        """
        # Not above: a command that only reads an address needs no gRPC.
        import grpc

        return grpc.ssl_channel_credentials(
            root_certificates=None if self.ca is None else _read_pem(self.ca, "ca", self.origin),
            private_key=None if self.key is None else _read_pem(self.key, "key", self.origin),
            certificate_chain=None
            if self.certificate is None
            else _read_pem(self.certificate, "certificate", self.origin),
        )


def _find_state(path: str | os.PathLike[str]) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size)


def _named_by(origin: str) -> str:
    return f" ({origin})" if origin else ""


def _read_pem(path: str | os.PathLike[str], field: str, origin: str) -> bytes:
    try:
        pem = Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgument(
            f"The TLS file tls.{field}={os.fspath(path)} cannot be read: {error.strerror}{_named_by(origin)}.",
            metadata={"field": f"tls.{field}"},
        ) from error
    if b"-----BEGIN " not in pem:
        raise InvalidArgument(
            f"The TLS file tls.{field}={os.fspath(path)} is not in PEM format (no line begins with -----BEGIN)"
            f"{_named_by(origin)}.",
            metadata={"field": f"tls.{field}"},
        )
    return pem


def check_token(token: Token | None, target: Target, *, tls: bool) -> None:
    """Refuses a token that would not arrive, or that others could read on its way. Pure.

    Raises:
        InvalidArgument: The token has characters that a header cannot hold, or would leave this machine unencrypted.
    """
    if token is None:
        return
    # A file is checked when it is read.
    if isinstance(token, str) and not TOKEN.fullmatch(token):
        raise InvalidArgument(
            "The token must have 1 to 8192 printable ASCII characters and no space (does it end with a line end?).",
            metadata={"field": "token"},
        )
    if not tls and not target.is_loopback:
        raise InvalidArgument(
            f"A token is not sent to {target} without TLS: anyone on the way could read it. Give the TLS files "
            "(tls_ca=, --tls-ca or LAKELOG_TLS_CA), or connect to a loopback address.",
            metadata={"field": "token", "target": str(target)},
        )
