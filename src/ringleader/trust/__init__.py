"""Who belongs to the cluster: keys and certificates, invitations, revocations, and TLS made of them.

Nodes and shards use it alike. It dials nobody and decides nothing but whom to believe.
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")  # read when grpc is first imported; see net/__init__.py
