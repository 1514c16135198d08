"""The master's part under its old name, for a node that does not elect one."""

from __future__ import annotations

from ringleader.cluster.leadership import TELLS_MAX
from ringleader.cluster.leadership import Leadership as ClusterState

__all__ = ["TELLS_MAX", "ClusterState"]
