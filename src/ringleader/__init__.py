"""Ringleader: the Macs on one network as one inference server."""

__version__ = "0.1.0"
