"""All tables, wherever they are declared."""

from __future__ import annotations

from typing import Final

from . import tables
from .baseline_tables import full_count
from .grant_tables import access_grant
from .log_tables import log_topic
from .publish_tables import publish_state
from .retention_tables import tag
from .revision_tables import schema_revision
from .run_tables import job_run
from .service_tables import service
from .waiting_tables import waiting_work

# It does not matter which table of another module is named: importing the module declares all of its tables.
_DECLARED: Final = (
    access_grant,
    tag,
    full_count,
    job_run,
    log_topic,
    publish_state,
    schema_revision,
    service,
    waiting_work,
)
assert {each.metadata for each in _DECLARED} == {tables.metadata}, "the tables belong to one database"

metadata: Final = tables.metadata
