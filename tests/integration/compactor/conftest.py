from __future__ import annotations

from tests.support.metastore.either_store import catalog, metastore, planners, warehouse

__all__ = ["catalog", "metastore", "planners", "warehouse"]
