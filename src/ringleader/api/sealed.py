"""`encrypted_content`: reasoning in a form that clients carry back unread, for conversations that are stored nowhere.

It is packed, not encrypted: the model's thoughts are the client's own, and any node of any cluster can read them.
"""

from __future__ import annotations

import base64
import binascii
import zlib

PREFIX = "rl1."
BYTES_MAX = 4 * 2**20  # of reasoning, unpacked: what a small text may grow to is bounded


def seal(reasoning: str) -> str:
    """`reasoning` as a client is given it."""
    return PREFIX + base64.urlsafe_b64encode(zlib.compress(reasoning.encode())).decode()


def unseal(sealed: str) -> str | None:
    """What `seal` was given, or None for a text that no node of ours has made."""
    if not sealed.startswith(PREFIX):
        return None
    try:
        packed = base64.b64decode(sealed.removeprefix(PREFIX), altchars=b"-_", validate=True)
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(packed, BYTES_MAX)
        return text.decode() if unpacker.eof else None
    except (ValueError, binascii.Error, zlib.error):
        return None
