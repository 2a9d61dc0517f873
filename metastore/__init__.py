"""The metastore: the one service that owns every snapshot and every commit."""
