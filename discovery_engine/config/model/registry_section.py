"""The section `registry`: where the catalog and the owner's decisions are kept."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator

from discovery_engine._util.json import JSONValue
from discovery_engine.config.model.field_types import Template, custom_error
from discovery_engine.config.model.section import section
from discovery_engine.config.settings import RegistrySettings
from discovery_engine.secrets.references import split

_SCHEMES = ("postgresql", "postgres")
_SECRETS = ("password", "sslpassword", "oauth_client_secret")
_REFERENCE = "\N{REPLACEMENT CHARACTER}"  # in place of a reference, which may hold any character
_HINT = 'write url: "${DATABASE_URL}", or postgresql://USER:${DATABASE_PASSWORD}@HOST/DATABASE'


def _address(text: str) -> str:
    # The default of a reference stands in the file, too.
    parts = (part if isinstance(part, str) else part.default or _REFERENCE for part in split(text))
    url = "".join(parts)
    if not text or url == _REFERENCE:
        return text
    try:
        address = urlsplit(url)
        parameters = parse_qs(address.query)
    except ValueError:
        raise custom_error("is no address of a database", hint=_HINT) from None
    if address.scheme not in _SCHEMES:
        raise custom_error("must begin with postgresql://", hint=_HINT)
    secrets = [
        address.password or "",
        *(value for key in _SECRETS for value in parameters.get(key, ())),
    ]
    if any(secret.replace(_REFERENCE, "") for secret in secrets):
        raise custom_error(
            "must not hold a password, which others can read in this file", hint=_HINT
        )
    return text


def _section(value: JSONValue) -> JSONValue:
    if isinstance(value, str):
        if value != "sqlite":
            raise custom_error("must be sqlite, or a mapping with a `url`", hint=_HINT)
        return {}
    return value


RegistrySection = section(RegistrySettings, url=Annotated[Template, AfterValidator(_address)])
registry_or_sqlite = BeforeValidator(_section, json_schema_input_type=RegistrySection | str)
"""Beside the section: the word `sqlite` is that of the data folder."""
