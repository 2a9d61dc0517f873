"""The Kubernetes API with plain JSON objects, over the official client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from kubernetes import config
from kubernetes.client.exceptions import ApiException
from kubernetes.watch.watch import iter_resp_lines

Object: TypeAlias = dict[str, Any]

MERGE: Final = "application/merge-patch+json"
NOT_FOUND: Final = 404
CONFLICT: Final = 409


class Api:
    """Requests to the API server.

    Args:
        kubeconfig: The file with its address and a token.
    """

    def __init__(self, kubeconfig: str) -> None:
        load: Any = config.new_client_from_config  # Has no types.
        self._client = load(kubeconfig)

    def get(self, path: str, **query: str) -> Object:
        """An object, or a list of objects; raises ApiException."""
        return self._send("GET", path, None, query)

    def create(self, path: str, body: Object) -> Object:
        """A new object in the collection at a path."""
        return self._send("POST", path, body, {})

    def ensure(self, path: str, body: Object) -> None:
        """Creates an object that may be there already."""
        try:
            self.create(path, body)
        except ApiException as error:
            if error.status != CONFLICT:
                raise

    def patch(self, path: str, body: Object, content_type: str = MERGE) -> Object:
        """Changes an object."""
        return self._send("PATCH", path, body, {}, content_type)

    def delete(self, path: str, body: Object | None = None) -> None:
        """Deletes an object that may be gone already."""
        try:
            self._send("DELETE", path, body or {}, {})
        except ApiException as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise

    def watch(self, path: str, **query: str) -> Iterator[tuple[str, Object]]:
        """What is there, as `ADDED`, then each change, until the server ends the watch after a few minutes.

        Yields:
            `ADDED`, `MODIFIED` or `DELETED`, and the object; after the first objects also `SYNCED`, with {}.
        """
        found = self.get(path, **query)
        for item in found["items"]:
            yield "ADDED", item
        yield "SYNCED", {}
        version = found["metadata"]["resourceVersion"]
        response = self._request(
            "GET", path, None, {**query, "watch": "true", "resourceVersion": version, "timeoutSeconds": "240"}, ""
        )
        read_lines: Any = iter_resp_lines  # Has no types.
        for line in read_lines(response.response):
            event = json.loads(line)
            if event["type"] == "ERROR":
                return
            yield event["type"], event["object"]

    def _send(self, method: str, path: str, body: Object | None, query: dict[str, str], content_type: str = "") -> Any:
        response = self._request(method, path, body, query, content_type)
        return json.loads(response.response.read())

    def _request(self, method: str, path: str, body: Object | None, query: dict[str, str], content_type: str) -> Any:
        headers = {"Accept": "application/json", "Content-Type": content_type or "application/json"}
        request = self._client.param_serialize(
            method,
            path,
            path_params={},
            query_params=list(query.items()),
            header_params=headers,
            body=body,
            post_params=[],
            files={},
            auth_settings=["BearerToken"],
        )
        response = self._client.call_api(*request)
        if not 200 <= response.status <= 299:
            response.read()
            self._client.response_deserialize(response, {})
        return response


__all__ = ["CONFLICT", "MERGE", "NOT_FOUND", "Api", "ApiException", "Object"]
