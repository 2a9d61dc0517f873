"""CredentialService: its methods check the right of the caller once more when the keys are there."""

from __future__ import annotations

from typing import Any

import grpc

from lakelog.format.tables.credentials import StoreCredentials
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import credentials_pb2

from ...use_cases import UseCases
from ..callers import principal, recheck
from .unary import Servicer

Context = grpc.aio.ServicerContext[Any, Any]

_to_proto = Translation(StoreCredentials, credentials_pb2.StoreCredentials).to_proto


class CredentialServicer(Servicer):
    """Keys of the object store."""

    def __init__(self, use_cases: UseCases) -> None:
        super().__init__(credentials_pb2.DESCRIPTOR.services_by_name["CredentialService"], use_cases)
        self._vending = use_cases.vending

    async def VendReadCredentials(
        self, request: credentials_pb2.VendReadCredentialsRequest, _context: Context
    ) -> credentials_pb2.VendReadCredentialsResponse:
        keys = await self._vending.vend_read_credentials(
            request.table_uuid, refused_key_id=request.refused_key_id, check_right=recheck(), by=principal()
        )
        return credentials_pb2.VendReadCredentialsResponse(credentials=None if keys is None else _to_proto(keys))

    async def VendWriteCredentials(
        self, request: credentials_pb2.VendWriteCredentialsRequest, _context: Context
    ) -> credentials_pb2.VendWriteCredentialsResponse:
        keys = await self._vending.vend_write_credentials(
            request.table_uuid, refused_key_id=request.refused_key_id, check_right=recheck(), by=principal()
        )
        return credentials_pb2.VendWriteCredentialsResponse(credentials=None if keys is None else _to_proto(keys))
