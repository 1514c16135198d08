"""The cluster's certificate authority: made by the first node, its private key on that node only.

Keys are ECDSA P-256: gRPC's TLS refuses Ed25519. All cryptography is the `cryptography` package's.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ringleader.errors import BadRequest, NotTrusted
from ringleader.trust.credentials import Credentials, load, member_name, node_name
from ringleader.trust.private_files import read_private
from ringleader.values import NodeId

AUTHORITY_KEY_FILE = "authority.key"
# A certificate that runs out would stop a cluster whose founder is gone; who must go is revoked by name instead.
LIFE = datetime.timedelta(days=3650)
AUTHORITY_LIFE = 2 * LIFE
SERVER_LIFE = datetime.timedelta(
    days=800
)  # Apple's clients take no server certificate that is good for longer than 825
CLOCK_SKEW = datetime.timedelta(days=2)  # a joining machine's clock may be behind
SIGNED_PREFIX = b"ringleader revocations\0"  # the same key signs certificates; nothing signed may pass for another


@dataclass(frozen=True, slots=True)
class Authority:
    """The authority's two halves. Who holds one can let nodes in and revoke them."""

    cluster: str
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        """The certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, node: NodeId, public_key: ec.EllipticCurvePublicKey) -> bytes:
        """A certificate (PEM) for this node, good for both ends of a connection."""
        names = [x509.DNSName(node_name(self.cluster, node)), x509.DNSName(member_name(self.cluster))]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue(_named(node), public_key, LIFE, names, usages)

    def issue_server(self, names: Sequence[x509.GeneralName], public_key: ec.EllipticCurvePublicKey) -> bytes:
        """A certificate (PEM) for the API of hosts with these names. It proves no node: no name may be a member's.

        Raises BadRequest when one is.
        """
        ours = member_name(self.cluster)
        if any(f".{name.value}".lower().rstrip(".").endswith(f".{ours}") for name in names):
            raise BadRequest(f"names that end with {ours} are those of nodes: name the machine as its clients do")
        usages = [ExtendedKeyUsageOID.SERVER_AUTH]
        return self._issue(_named("Ringleader API"), public_key, SERVER_LIFE, names, usages)

    def _issue(
        self,
        subject: x509.Name,
        public_key: ec.EllipticCurvePublicKey,
        life: datetime.timedelta,
        names: Sequence[x509.GeneralName],
        usages: Sequence[x509.ObjectIdentifier],
    ) -> bytes:
        builder = (
            _builder(subject, self.certificate.subject, public_key, life)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def sign(self, data: bytes) -> bytes:
        """A signature that `verify` accepts."""
        return self.key.sign(SIGNED_PREFIX + data, ec.ECDSA(hashes.SHA256()))


def new_authority(cluster: str) -> Authority:
    """A new, self-signed authority."""
    key = new_key()
    name = _named(member_name(cluster))
    builder = (
        _builder(name, name, key.public_key(), AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(certificates=True), critical=True)
    )
    return Authority(cluster, builder.sign(key, hashes.SHA256()), key)


def load_authority(directory: Path) -> Authority:
    """The authority whose key lies here. Raises NotTrusted on a node that has none, saying where to go."""
    credentials = load(directory)
    if credentials is None:
        raise NotTrusted(
            f"no node of a cluster has its keys in {directory}: start one with ringleader node; "
            "if it was started with --state, name the same folder here"
        )
    key = read_private(directory / AUTHORITY_KEY_FILE)
    if key is None:
        raise NotTrusted(
            f"only the node that made the cluster {credentials.name!r} can do this: it holds the authority's key "
            f"(copy its {AUTHORITY_KEY_FILE} here to let this node do it too)"
        )
    return Authority(credentials.cluster, certificate_of(credentials.authority), key_of(key))


def has_authority(directory: Path) -> bool:
    """Whether this node can let others in."""
    return (directory / AUTHORITY_KEY_FILE).exists()


def verify(authority: bytes, data: bytes, signature: bytes) -> bool:
    """Whether the authority with this certificate (PEM) has signed `data`."""
    key = certificate_of(authority).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    try:
        key.verify(signature, SIGNED_PREFIX + data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def fingerprint(certificate: bytes) -> bytes:
    """SHA-256 of a certificate (PEM in, 32 bytes out). Raises NotTrusted when it is no certificate."""
    return certificate_of(certificate).fingerprint(hashes.SHA256())


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def key_of(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise NotTrusted(f"a private key cannot be read: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise NotTrusted("a private key is not of the kind that clusters use (ECDSA P-256)")
    return key


def certificate_of(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise NotTrusted(f"a certificate cannot be read: {error}") from error


def certificate_request(node: NodeId, key: ec.EllipticCurvePrivateKey) -> bytes:
    """A request (PEM) for a certificate of this node."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_named(node))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def requested_key(request: bytes) -> ec.EllipticCurvePublicKey:
    """The public key of a request, whose sender has proved to hold the private one. What else it says is ignored.

    Raises NotTrusted when it is no request, not signed by its own key, or of another kind of key.
    """
    try:
        found = x509.load_pem_x509_csr(request)
        valid, key = found.is_signature_valid, found.public_key()
    except ValueError as error:
        raise NotTrusted(f"the certificate request cannot be read: {error}") from error
    if not valid or not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise NotTrusted("the certificate request is not signed by a P-256 key of its own")
    return key


def check_issued(credentials: Credentials) -> None:
    """Raises NotTrusted unless the certificate is this node's, its key's and its authority's."""
    certificate, authority = certificate_of(credentials.certificate), certificate_of(credentials.authority)
    try:
        certificate.verify_directly_issued_by(authority)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found = names.get_values_for_type(x509.DNSName)
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound) as error:
        raise NotTrusted(f"the certificate is not one of cluster {credentials.name!r}: {error}") from error
    if certificate.public_key() != key_of(credentials.key).public_key():
        raise NotTrusted("the certificate does not belong to this node's key")
    if node_name(credentials.cluster, credentials.node) not in found:
        raise NotTrusted(f"the certificate is of another node: {', '.join(found)}")


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
