"""The room with grpc in it. A node starts processes while gRPC's threads run: gRPC's own fork handlers, which run
in the child before it becomes a shard, then crash it now and then. Nothing of ours uses gRPC after a fork."""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")  # read when grpc is first imported
