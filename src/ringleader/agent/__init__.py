"""Agents: steps whose tools are contracts, and a loop that forces its opening move. A client of chat backends.

Knows nothing of the cluster: a ring is a backend like any other. What needs a package of the extra imports it late.
"""
