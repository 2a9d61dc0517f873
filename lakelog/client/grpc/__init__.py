"""The metastore's protocols over gRPC, one file for each service."""
