"""The room with grpc in it. A node starts processes while gRPC's threads run: gRPC's own fork handlers, which run
in the child before it becomes a shard, then crash it now and then. Nothing of ours uses gRPC after a fork."""

import os

# Both are read when grpc is first imported, which may be here or in trust/: see there for the second.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
