"""The certificate and the key with which the gateway serves HTTPS.

Both are checked before anything is served, because a library of TLS names none of them in its
errors, and a client that meets an expired certificate names no file either.
"""

from __future__ import annotations

import ssl
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from msgspec import Struct

from discovery_engine.errors import ConfigurationError
from discovery_server.token_files import (
    NO_WAITING,
    is_readable_by_others,
    is_writable_by_others,
    read_file,
    reason_of,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import (
        PrivateKeyTypes,
        PublicKeyTypes,
    )

CODE = "SERVE_TLS_INVALID"
_MAX_TLS_FILE_BYTES = 1 << 20  # bytes; a chain of certificates has a few thousand
_SOON = timedelta(days=14)
_RENEW = "renew it; after SIGHUP, or a new start, the new one is used"
_WITHOUT_PASSWORD = "`openssl pkey -in KEY -out NEW-KEY` writes it without"  # noqa: S105 - a hint


class TlsFiles(Struct, frozen=True):
    """The paths of a certificate and its key."""

    certificate: Path
    """In PEM form, with the certificates between it and its authority behind it."""
    key: Path


class Certificate(Struct, frozen=True):
    """The facts about a certificate that concern its owner."""

    names: tuple[str, ...]
    """The host names and addresses that it is for, without those with a `*`."""
    expires: datetime
    notices: tuple[str, ...] = ()
    """Notices for its owner."""


class Tls:
    """The encryption of a gateway's connections."""

    def __init__(self, files: TlsFiles, now: datetime) -> None:
        """Load the files.

        Raises:
            ConfigurationError: If one cannot be used, or they do not belong together.
        """
        self._files = files
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self.certificate = self.reload(now)

    def reload(self, now: datetime) -> Certificate:
        """Use what the files have now for new connections.

        Raises:
            ConfigurationError: As when they are loaded; what was loaded before stays in use.
        """
        certificate = _checked(self._files, now)
        try:
            paths = self._files.certificate, self._files.key
            self.context.load_cert_chain(*paths, password=lambda: "")  # never asks for one
        except (ssl.SSLError, OSError) as error:
            raise _problem(self._files.certificate, f"cannot be used: {error}") from error
        self.certificate = certificate
        return certificate


def _checked(files: TlsFiles, now: datetime) -> Certificate:
    """The certificate, which is valid now, and of which the key is.

    Raises:
        ConfigurationError: Otherwise.
    """
    content, _ = _read(files.certificate, "--tls-cert")
    try:
        certificate = x509.load_pem_x509_certificates(content)[0]
    except ValueError as error:
        hint = "it begins with `-----BEGIN CERTIFICATE-----`"
        raise _problem(files.certificate, "holds no certificate in PEM form", hint) from error
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if ends <= now:
        raise _problem(files.certificate, f"the certificate expired on {_date(ends)}", _RENEW)
    if begins > now:
        hint = "see whether the clock of this machine is right"
        raise _problem(files.certificate, f"the certificate is valid from {_date(begins)} on", hint)
    key, notices = _key(files.key)
    if _public(key.public_key()) != _public(certificate.public_key()):
        message = f"is not the key of the certificate in {files.certificate}"
        raise _problem(files.key, message, "give both files of one certificate")
    if ends - now < _SOON:
        notices = (*notices, f"the certificate expires on {_date(ends)}: {_RENEW}")
    return Certificate(_names(certificate), ends, notices)


def _key(path: Path) -> tuple[PrivateKeyTypes, tuple[str, ...]]:
    content, notices = _read(path, "--tls-key", is_secret=True)
    try:
        return load_pem_private_key(content, password=None), notices
    except TypeError as error:
        raise _problem(path, "is encrypted with a password", _WITHOUT_PASSWORD) from error
    except ValueError as error:
        hint = "it begins with `-----BEGIN PRIVATE KEY-----`, or names its kind as well"
        raise _problem(path, "holds no private key in PEM form", hint) from error


def _read(path: Path, option: str, *, is_secret: bool = False) -> tuple[bytes, tuple[str, ...]]:
    """The content of a file of an option; and a notice, if others can read what they should not."""
    hint = f"`{option}` takes the path of a PEM file that this user can read"
    try:
        content, status = read_file(path, NO_WAITING, most=_MAX_TLS_FILE_BYTES)
    except FileNotFoundError as error:
        raise _problem(path, f"there is no such file ({option})", hint) from error
    except OSError as error:
        raise _problem(path, f"cannot be read ({option}): {reason_of(error)}", hint) from error
    except ConfigurationError as error:  # no regular file, or too large
        raise _problem(path, f"{error.problems[0].message} ({option})", hint) from error
    if not is_secret:
        return content, ()
    if is_writable_by_others(status):
        raise _problem(path, "can be written by other users", f"`chmod 600 {path}`")
    if is_readable_by_others(status):
        return content, (f"other users can read {path}: `chmod 600` makes it readable by you only",)
    return content, ()


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        alternative_names = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    names = alternative_names.get_values_for_type(x509.DNSName)
    addresses = map(str, alternative_names.get_values_for_type(x509.IPAddress))
    return (*(name.casefold() for name in names if "*" not in name), *addresses)


def _public(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _date(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M UTC")


def _problem(origin: Path, message: str, hint: str = "") -> ConfigurationError:
    return ConfigurationError.of_file(CODE, origin, message, hint)
