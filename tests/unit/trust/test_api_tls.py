"""The API's https: a certificate that clients of the cluster's authority accept, for the names that were asked for."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from ringleader.errors import BadRequest, NotTrusted
from ringleader.trust.api_tls import certificate_for, cluster_context, file_context
from ringleader.trust.authority import AUTHORITY_KEY_FILE
from ringleader.trust.cluster import open_membership


def shaken(server: ssl.SSLContext, authority: bytes, host: str) -> None:
    """A whole handshake in memory, as a client that knows the authority and dials `host`."""
    client = ssl.create_default_context(cadata=authority.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(6):
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
    assert not ends


def test_the_founders_api_is_known_by_its_names_and_no_others(tmp_path: Path) -> None:
    member = open_membership(tmp_path, "home", 1000.0)
    context = cluster_context(tmp_path, ["localhost", "127.0.0.1", "fe80::1%en0", "studio.local"])
    for host in ("localhost", "127.0.0.1", "fe80::1", "studio.local"):
        shaken(context, member.authority, host)
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(context, member.authority, "mini.local")


def test_another_nodes_api_gets_a_file_from_the_founder(tmp_path: Path) -> None:
    member = open_membership(tmp_path, "home", 1000.0)
    pem = tmp_path / "mini.pem"
    pem.write_bytes(certificate_for(tmp_path, ["mini.local"]))
    shaken(file_context(pem), member.authority, "mini.local")


def test_no_api_certificate_passes_for_a_node(tmp_path: Path) -> None:
    member = open_membership(tmp_path, "home", 1000.0)
    for name in (f"{member.node}.{member.cluster}.ringleader", f"{member.cluster}.RINGLEADER"):
        with pytest.raises(BadRequest, match="those of nodes"):
            certificate_for(tmp_path, [name])


def test_a_node_without_the_authority_says_where_to_go(tmp_path: Path) -> None:
    open_membership(tmp_path, "home", 1000.0)
    (tmp_path / AUTHORITY_KEY_FILE).unlink()
    with pytest.raises(NotTrusted, match="ringleader cluster certificate"):
        cluster_context(tmp_path, ["localhost"])


def test_a_file_that_is_no_pair_is_refused(tmp_path: Path) -> None:
    pem = tmp_path / "x.pem"
    for text in (None, "", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        if text is not None:
            pem.write_text(text)
        with pytest.raises(BadRequest, match="--api-cert"):
            file_context(pem)
