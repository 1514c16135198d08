"""https for the API: a certificate of the cluster's authority, or one that the operator brings."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509

from ringleader.errors import BadRequest, NotTrusted
from ringleader.trust.authority import has_authority, key_to_pem, load_authority, new_key
from ringleader.trust.private_files import write_private

API_PROOF_FILE = "api.pem"


def certificate_for(directory: Path, hosts: Iterable[str]) -> bytes:
    """A new key and its certificate (PEM, the certificate first) for servers reached by these names and addresses.

    Raises NotTrusted where the authority's key does not lie.
    """
    authority, key = load_authority(directory), new_key()
    names = [_name(host) for host in dict.fromkeys(hosts)]
    return authority.issue_server(names, key.public_key()) + key_to_pem(key)


def cluster_context(directory: Path, hosts: Iterable[str]) -> ssl.SSLContext:
    """TLS by a certificate that the cluster's authority gives at each start.

    Raises NotTrusted on a node that cannot, saying how it gets one.
    """
    if not has_authority(directory):
        raise NotTrusted(
            "--api-tls works on the node that made the cluster: it holds the authority's key. For this one run, there, "
            "ringleader cluster certificate and this machine's name, bring the file here (mode 600), and say --api-cert"
        )
    write_private(directory / API_PROOF_FILE, certificate_for(directory, hosts))
    return file_context(directory / API_PROOF_FILE)


def file_context(pem: Path) -> ssl.SSLContext:
    """TLS by a file with a certificate (and its chain) and the key. Raises BadRequest when it holds no such pair."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(pem)
    except OSError as error:  # ssl's own errors are among them
        raise BadRequest(
            f"--api-cert {pem}: a PEM file with a certificate and its private key is needed ({error})", param="api_cert"
        ) from error
    return context


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise BadRequest(f"{host!r} is no host name: {error}") from error
