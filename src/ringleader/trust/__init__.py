"""Who belongs to the cluster: keys and certificates, invitations, revocations, and TLS made of them.

Nodes and shards use it alike. It dials nobody and decides nothing but whom to believe.
"""

import os

# Both are read when grpc is first imported. For the first see net/__init__.py; by the second gRPC would write a line
# for each connection that it refuses, which whoever can reach the port could make it do a thousand times a second:
# trust/guard.py tells of them once a minute.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
