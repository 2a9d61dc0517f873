"""Opens the token service that keys come from, and shows at the start that the store holds keys to their policy.

A store that takes a policy and does not enforce it would give every reader the whole bucket, and nothing would show it.
So the metastore does not start with such a store. `checked.py` says what it does without an answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from lakelog.clock import Ids
from lakelog.config import read_s3_settings
from lakelog.errors import AlreadyExists, InvalidArgument, NotFound, PermissionDenied
from lakelog.storage.objects.store import ObjectStore, S3Settings
from lakelog.storage.objects.stores import open_store

from .identity import read_identity
from .policy import find_partition, make_policy, split_location
from .token_service import TokenService
from .vending import VendSettings

NOT_ENFORCED: Final = "POLICY_NOT_ENFORCED"
"""The reason of an error when a store does not hold keys to their policy."""

_ATTEMPTS: Final = 3
"""One who starts a service with a wrong endpoint should see it soon."""


def open_vending(
    role: str | None, endpoint: str | None, duration_s: int, warehouse: str, environment: Mapping[str, str]
) -> VendSettings | None:
    """How keys are vended by these settings; None: not at all. Sends nothing.

    Raises:
        InvalidArgument: A value is not possible, or does not fit the warehouse.
    """
    if role is None:
        if endpoint is not None:
            raise InvalidArgument(
                "--vend-endpoint is given without --vend-role: name the role whose keys are vended, or leave it out.",
                metadata={"field": "vend-endpoint"},
            )
        return None
    partition = find_partition(role)
    if not warehouse.startswith("s3://"):
        raise InvalidArgument(
            f"--vend-role needs a warehouse in S3, and {warehouse} is none: leave --vend-role out.",
            metadata={"field": "vend-role"},
        )
    split_location(f"{warehouse}/table/")
    settings = read_s3_settings(environment)
    region = settings.region or "us-east-1"
    service = TokenService(
        endpoint or settings.endpoint or _find_amazon(partition, region),
        region,
        role,
        duration_s,
        lambda: read_identity(environment),
    )
    return VendSettings(service, partition, duration_s, warehouse.rstrip("/"))


def _find_amazon(partition: str, region: str) -> str:
    return f"https://sts.{region}.amazonaws.com{'.cn' if partition == 'aws-cn' else ''}"


def check_vending(vend: VendSettings, warehouse: str, own: S3Settings, ids: Ids) -> None:
    """Vends keys for a folder, and shows that they reach no other. Blocks.

    Args:
        vend: How keys are vended.
        warehouse: Where tables are.
        own: The metastore's own settings of S3, which may write there.
        ids: Makes the name of the folder.

    Raises:
        InvalidArgument: The store does not hold the keys to their policy, or refuses what the policy allows.
        LakelogError: The token service or the store refuses, or does not answer.
    """
    own = dataclasses.replace(own, attempts=min(own.attempts, _ATTEMPTS))
    folder = f"{warehouse}/vend-probe-{ids.new_id()}"
    inside, outside = f"{folder}/inside/", f"{folder}/outside/"
    stores = [open_store(each, own) for each in (inside, outside)]
    try:
        for store in stores:
            _write(store, "there")
        for writes in (False, True):
            keys = vend.source.request_keys("startup-check", make_policy(vend.partition, inside, writes=writes)).keys
            vended = dataclasses.replace(
                own,
                access_key_id=keys.access_key_id,
                secret_access_key=keys.secret_access_key,
                session_token=keys.session_token,
            )
            _check_reach(open_store(inside, vended), open_store(outside, vended), ids.new_id(), writes=writes)
    finally:
        for store in stores:
            store.delete_many([each.path for each in store.list_objects()])


def _check_reach(inside: ObjectStore, outside: ObjectStore, name: str, *, writes: bool) -> None:
    allowed: list[tuple[str, Callable[[], object]]] = [
        ("read their folder", lambda: inside.open_input("there").close()),
        ("list their folder", lambda: list(inside.list_objects())),
    ]
    refused: list[tuple[str, Callable[[], object]]] = [
        ("read another folder", lambda: outside.open_input("there").close()),
        ("list another folder", lambda: list(outside.list_objects())),
        ("write to another folder", lambda: _write(outside, name)),
        ("delete in another folder", lambda: outside.delete("there")),
    ]
    (allowed if writes else refused).append(("write to their folder", lambda: _write(inside, name)))
    for what, work in allowed:
        try:
            work()
        except PermissionDenied as error:
            raise InvalidArgument(
                f"Keys that the store vends for {'writing' if writes else 'reading'} cannot {what}: {error.message} "
                "Does the role allow it in the whole warehouse (--vend-role)?",
                metadata={"field": "vend-role"},
            ) from error
    for what, work in refused:
        try:
            work()
        except (PermissionDenied, NotFound):
            continue
        except AlreadyExists:
            pass
        raise InvalidArgument(
            f"The store does not hold keys to their policy: keys for {'writing to' if writes else 'reading'} one "
            f"folder can {what}. Every caller would get the whole warehouse. Use a store that enforces session "
            "policies, or leave out --vend-role.",
            reason=NOT_ENFORCED,
            metadata={"field": "vend-role"},
        )


def _write(store: ObjectStore, path: str) -> None:
    writer = store.create(path)
    try:
        writer.sink.write(b"May be deleted.")
        writer.commit()
    except BaseException:
        writer.abort()
        raise
