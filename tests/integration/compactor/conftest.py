from __future__ import annotations

from tests.integration.sdk.conftest import catalog, metastore, planners, warehouse

__all__ = ["catalog", "metastore", "planners", "warehouse"]
