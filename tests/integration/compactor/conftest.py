from __future__ import annotations

from tests.integration.sdk.conftest import catalog, metastore, warehouse

__all__ = ["catalog", "metastore", "warehouse"]
