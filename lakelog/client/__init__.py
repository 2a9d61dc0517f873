"""How the SDK and the services talk to the metastore."""

import os

# SUBTLE: must stand before gRPC is imported. With its fork support on, gRPC's handlers around fork() now and then crash the
# children of a process that has a channel open: of 150 starts of Java by PySpark 16 failed, with it off none. Our own
# channels need no such support: a child opens new ones by itself (`lakelog.client.connection`).
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
