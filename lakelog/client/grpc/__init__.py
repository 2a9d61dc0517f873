"""The metastore's protocols over gRPC, one file a service."""
