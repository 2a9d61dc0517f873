"""The result of `install` in the driver program: the connection of a session and the caches for it."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pyspark.sql import SparkSession

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import SystemClock
from lakelog.config import read_s3_settings
from lakelog.errors import InvalidArgument
from lakelog.sdk.catalog import Catalog
from lakelog.spark.batch.deletion_vectors import SectionVectorCache
from lakelog.spark.connection import SparkConnection, open_metastore
from lakelog.spark.executor_check import VERSION, VERSION_PROPERTY
from lakelog.spark.older_files.native_versions import NativeVersions
from lakelog.spark.session.frames import FrameCache
from lakelog.storage.objects.stores import LocationStores
from lakelog.writes.attempts_ahead import AttemptsAhead

_INSTALLATION_CONF: Final = "spark.lakelog.installation"
"""Names the installation in a session's conf, since sessions made from this one (those of streams) copy it."""

CATALOG: Final = "lakelog"
"""The name of the catalog of Spark that has the tables."""

CATALOG_CONF: Final = f"spark.sql.catalog.{CATALOG}"

_FIELD_IDS_CONF: Final = "spark.sql.parquet.fieldId.read.enabled"
_CACHE_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class Installation:
    """State shared by the sessions in which lakelog was installed together."""

    connection: SparkConnection
    deletion_vectors: SectionVectorCache
    frames: FrameCache
    native_versions: NativeVersions = field(default_factory=NativeVersions)
    views: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """The views that were made for a database and a prefix."""

    @cached_property
    def attempts_ahead(self) -> AttemptsAhead:
        """Attempts for writes that follow each other; connects when it is first used."""
        return AttemptsAhead(self.metastore, SystemClock())

    @cached_property
    def catalog(self) -> Catalog:
        """The databases and tables."""
        return Catalog(self.metastore, LocationStores(read_s3_settings(os.environ), self.metastore))

    @property
    def metastore(self) -> Metastore:
        """The metastore; connects when it is first used."""
        return open_metastore(self.connection)


_INSTALLATIONS: Final[dict[str, Installation]] = {}


def make_installation(spark: SparkSession, connection: SparkConnection) -> tuple[str, Installation]:
    """Makes an installation and names it in the conf of a session."""
    name = uuid.uuid4().hex
    made = Installation(connection, SectionVectorCache(_CACHE_BYTES), FrameCache())
    _INSTALLATIONS[name] = made
    spark.conf.set(_INSTALLATION_CONF, name)
    spark.conf.set(_FIELD_IDS_CONF, "true")
    spark.conf.set(VERSION_PROPERTY, VERSION)
    return name, made


def installation_of(spark: SparkSession) -> Installation:
    """The installation of a session, or of the session it was made from.

    Raises:
        InvalidArgument: There is none, or a setting that lakelog needs was removed since.
    """
    found = _INSTALLATIONS.get(spark.conf.get(_INSTALLATION_CONF, "") or "")
    if found is None:
        raise InvalidArgument(
            "lakelog is not installed in this Spark session: call lakelog.spark.install(spark, target) first."
        )
    if spark.conf.get(_FIELD_IDS_CONF) != "true":
        raise InvalidArgument(
            f"{_FIELD_IDS_CONF} was switched off after lakelog was installed; without it renamed columns would be read "
            "wrongly. Set it to true."
        )
    return found
