"""Certificates that are made for one test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from discovery_server.http.tls_files import Tls, TlsFiles

__all__ = ["DAY", "NOW", "Tls", "make_certificate"]

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
NAMES = ("localhost", "tools.example", "*.wild.example")


def make_certificate(
    folder: Path,
    name: str = "own",
    *,
    begins: datetime = NOW - DAY,
    ends: datetime = NOW + 90 * DAY,
    password: bytes | None = None,
    names: tuple[str, ...] = NAMES,
) -> TlsFiles:
    """The files of a certificate that is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    others = [*map(x509.DNSName, names), x509.IPAddress(ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectAlternativeName(others), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = TlsFiles(folder / f"{name}.pem", folder / f"{name}.key")
    files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    how = BestAvailableEncryption(password) if password else NoEncryption()
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how))
    files.key.chmod(0o600)
    return files
