"""A broker that also listens as those of production do: for passwords over TLS, and for certificates of clients."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from lakelog.embedded.kafka.broker import EmbeddedKafka
from lakelog.embedded.ports import free_ports
from lakelog.testing.proxy import TcpProxy
from tests.support.certificates import TestAuthority

_HOST: Final = "127.0.0.1"
_MECHANISM: Final = ScramMechanism.SCRAM_SHA_512
_ITERATIONS: Final = 4096


class SecuredKafka(EmbeddedKafka):
    """Listens in plaintext as well, for those that look after it and for consumers of tests.

    Args:
        folder: Where everything of it stands.
        authority: Signs the broker's certificate, and those of clients.
    """

    def __init__(self, folder: Path, authority: TestAuthority) -> None:
        super().__init__(folder / "kafka")
        self._sasl_port, ssl_port = free_ports(2)
        self.ssl_servers: Final = f"{_HOST}:{ssl_port}"
        self.proxy: Final = TcpProxy(self._sasl_port)
        pair = authority.issue("broker")
        self._authority = authority.ca.certificate
        self._store = folder / "broker-with-key.pem"
        self._store.write_text(pair.key.read_text() + pair.certificate.read_text())

    @property
    def sasl_servers(self) -> str:
        """For users with a password, over TLS, through a proxy that can cut their connections."""
        return self.proxy.target

    def set_password(self, user: str, password: str) -> None:
        """From now on this is the only one that lets the user in. Connections that are open stay."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        info = ScramCredentialInfo(_MECHANISM, _ITERATIONS)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        for answer in admin.alter_user_scram_credentials([change]).values():
            answer.result(20)

    def stop(self) -> None:
        """See the base."""
        super().stop()
        self.proxy.close()

    def _settings(self, data: Path) -> dict[str, str]:
        settings = super()._settings(data)
        settings["listeners"] += f",SASL_SSL://{_HOST}:{self._sasl_port},SSL://{self.ssl_servers}"
        settings["advertised.listeners"] += f",SASL_SSL://{self.sasl_servers},SSL://{self.ssl_servers}"
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", "SASL_SSL": "SASL_SSL", "SSL": "SSL"}
        return {
            **settings,
            "listener.security.protocol.map": ",".join(f"{name}:{how}" for name, how in protocols.items()),
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": login,
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._authority),
        }
