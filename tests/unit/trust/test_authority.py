from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from ringleader.errors import NotTrusted
from ringleader.trust.authority import (
    certificate_of,
    certificate_request,
    check_issued,
    fingerprint,
    key_of,
    key_to_pem,
    load_authority,
    new_authority,
    new_key,
    requested_key,
    verify,
)
from ringleader.values import NodeId
from tests.security.clusters import make_cluster

NODE = NodeId("0123456789abcdef")


def test_a_request_gives_its_key_and_nothing_else() -> None:
    key = new_key()
    assert requested_key(certificate_request(NODE, key)) == key.public_key()


def test_a_request_that_its_key_did_not_sign_is_refused() -> None:
    request = certificate_request(NODE, new_key())
    lines = request.splitlines()
    broken = bytearray(lines[-3])
    broken[5] = ord("A") if broken[5] != ord("A") else ord("B")
    lines[-3] = bytes(broken)
    with pytest.raises(NotTrusted):
        requested_key(b"\n".join(lines))
    with pytest.raises(NotTrusted, match="cannot be read"):
        requested_key(b"hello")


def test_keys_of_other_kinds_are_refused() -> None:
    from cryptography import x509

    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    for request in (
        builder.sign(ec.generate_private_key(ec.SECP384R1()), hashes.SHA256()),
        builder.sign(ed25519.Ed25519PrivateKey.generate(), None),
    ):
        with pytest.raises(NotTrusted, match="P-256"):
            requested_key(request.public_bytes(serialization.Encoding.PEM))
    other = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(NotTrusted, match="kind"):
        key_of(other)


def test_a_certificate_lasts_no_longer_than_the_authority_whenever_it_is_issued() -> None:
    authority = new_authority("aa" * 8)
    issued = certificate_of(authority.issue(NODE, new_key().public_key()))
    assert issued.not_valid_after_utc < authority.certificate.not_valid_after_utc
    a_day_ago = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    assert issued.not_valid_before_utc < a_day_ago, "a joining machine's clock may be behind"


def test_a_node_cannot_issue_certificates_with_its_own() -> None:
    from cryptography import x509

    issued = certificate_of(new_authority("aa" * 8).issue(NODE, new_key().public_key()))
    assert issued.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert issued.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign is False


def test_certificates_of_another_authority_key_or_node_are_not_taken_for_ours(tmp_path: Path) -> None:
    ours, theirs = make_cluster(tmp_path / "1"), make_cluster(tmp_path / "2")
    member, other = ours.member("b"), ours.member("c")
    check_issued(member)
    with pytest.raises(NotTrusted, match="not one of cluster"):
        check_issued(replace(member, authority=theirs.founder.authority))
    with pytest.raises(NotTrusted, match="key"):
        check_issued(replace(member, key=key_to_pem(new_key())))
    with pytest.raises(NotTrusted, match="another node"):
        check_issued(replace(member, node=other.node))
    with pytest.raises(NotTrusted, match="cannot be read"):
        check_issued(replace(member, certificate=b""))


def test_only_the_authority_signs_and_only_what_it_signed_is_verified() -> None:
    ours, theirs = new_authority("aa" * 8), new_authority("aa" * 8)
    signature = ours.sign(b"text")
    assert verify(ours.pem, b"text", signature)
    assert not verify(ours.pem, b"other", signature)
    assert not verify(theirs.pem, b"text", signature)
    assert not verify(ours.pem, b"text", b"")
    assert fingerprint(ours.pem) != fingerprint(theirs.pem)


def test_the_authority_is_on_the_founder_only_and_a_member_is_told_so(tmp_path: Path) -> None:
    cluster = make_cluster(tmp_path)
    assert load_authority(cluster.founder.directory).cluster == cluster.founder.cluster
    with pytest.raises(NotTrusted, match=r"only the node that made the cluster .* \(copy its authority\.key here"):
        load_authority(cluster.member("b").directory)
    with pytest.raises(NotTrusted, match="no node of a cluster has its keys in"):
        load_authority(tmp_path / "nowhere")
