"""The address of a PostgreSQL database: `postgresql://user@host/database`, or libpq's key words."""

from __future__ import annotations

import re

from msgspec import Struct

from discovery_engine.errors import RegistryError
from discovery_engine.secrets.redactor import SHORTEST, Redactor, forms
from discovery_engine.secrets.references import REDACTED

SCHEMES = ("postgresql://", "postgres://")
_SECRETS = ("password", "sslpassword", "oauth_client_secret")
_LOCAL = ("", "localhost", "127.0.0.1", "::1")


class DatabaseAddress(Struct, frozen=True):
    parameters: dict[str, str]
    """The parameters of libpq, including the secrets."""

    @classmethod
    def parse(cls, url: str) -> DatabaseAddress:
        """The address that a URL names.

        Raises:
            RegistryError: If it is none.
            ImportError: If it may be one, and the driver is not installed.
        """
        if not url.startswith(SCHEMES):
            raise RegistryError(
                "the address of the registry is not that of a PostgreSQL database",
                hint="write `postgresql://USER@HOST/DATABASE`, or a reference such as "
                "`${DATABASE_URL}` to it",
            )
        # Another address is refused as such where the driver is not installed, too.
        from psycopg import conninfo  # noqa: PLC0415
        from psycopg.errors import ProgrammingError  # noqa: PLC0415

        try:
            parameters = conninfo.conninfo_to_dict(url)
        except ProgrammingError:
            # libpq quotes what it cannot parse, and that may be the password.
            raise RegistryError(
                "the address of the registry cannot be parsed",
                hint="write `postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full`; characters "
                "such as @ : / in a password are written as %40 %3A %2F",
            ) from None
        return cls({key: str(value) for key, value in parameters.items() if value is not None})

    @property
    def name(self) -> str:
        """The address of the database, without any secret."""
        parameters = self.parameters
        hosts = parameters.get("host") or parameters.get("hostaddr") or "localhost"
        ports = parameters.get("port", "5432")
        user = f"{parameters['user']}@" if "user" in parameters else ""
        return f"postgresql://{user}{hosts}:{ports}/{parameters.get('dbname', '')}"

    @property
    def is_local(self) -> bool:
        hosts = self.parameters.get("host", "").split(",")
        return all(host in _LOCAL or host.startswith("/") for host in hosts)

    def redact(self, text: str) -> str:
        """The text without the secrets of the address, in whatever way they are encoded.

        One of fewer than four characters occurs in any text. It is redacted where it stands alone:
        between blanks or quotes, and wherever an address has it.
        """
        secrets = [secret for key in _SECRETS if (secret := self.parameters.get(key))]
        text = Redactor(secrets).redact(text)
        for secret in secrets:
            if len(secret) < SHORTEST:
                alternatives = "|".join(
                    map(re.escape, sorted(forms(secret), key=len, reverse=True))
                )
                text = re.sub(rf"(?<!\w)(?:{alternatives})(?!\w)", REDACTED, text)
        return text
