"""Makes an error the outcome of a call."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.client.connection.status import DETAILS_KEY, REQUEST_ID, to_wire_status
from lakelog.errors import LakelogError


def fail(context: grpc.aio.ServicerContext[Any, Any], failure: LakelogError, request_id: str = "") -> None:
    """Makes a failure the outcome of a call, whose handler then returns. The caller also gets the id of the request.

    SUBTLE: it does not use `context.abort`, which raises an error that gRPC keeps with the call. The error's traceback
        holds the call, so each refused request would stay in memory until the garbage collector runs.
    """
    status = to_wire_status(failure)
    ids = ((REQUEST_ID, request_id),) if request_id else ()
    context.set_trailing_metadata(((DETAILS_KEY, status.details), *ids))
    context.set_code(status.code)
    context.set_details(status.message)
