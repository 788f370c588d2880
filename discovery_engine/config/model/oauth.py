"""The `oauth` of a remote server: how its access tokens are obtained."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator

from discovery_engine.config.model.field_types import Text, Words, custom_error
from discovery_engine.config.model.section import section
from discovery_engine.config.settings import OAuthSettings
from discovery_engine.config.syntax import is_loopback_redirect, is_secure_address

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def _secure_address(text: str) -> str:
    if not is_secure_address(text):
        raise custom_error(
            "is no https address", hint="http is accepted for this machine only (127.0.0.1)"
        )
    return text


def _document_address(text: str) -> str:
    if not re.fullmatch(r"https://[^/?#\s]+/[^#\s]+", text):
        raise custom_error("is no https address with a path")
    return text


def _loopback_address(text: str) -> str:
    if not is_loopback_redirect(text):
        raise custom_error(
            "is no loopback address with a port", hint="write http://127.0.0.1:8765/callback"
        )
    return text


def _scopes(scopes: list[str]) -> list[str]:
    for scope in scopes:
        if not _SCOPE.fullmatch(scope):
            raise custom_error("holds a scope with a space, a quote or a backslash")
    return scopes


def _is_complete(oauth: Any) -> None:
    if oauth.client_secret and not oauth.client_id:
        raise custom_error("has a secret without a clientId", key="clientId")
    if oauth.grant == "client_credentials" and not (oauth.client_id and oauth.client_secret):
        raise custom_error("client_credentials needs a clientId and a clientSecret")


OAuthSection = section(
    OAuthSettings,
    check=_is_complete,
    scopes=Annotated[Words, AfterValidator(_scopes)],
    client_metadata_url=Annotated[Text, AfterValidator(_document_address)],
    auth_server_metadata_url=Annotated[Text, AfterValidator(_secure_address)],
    redirect_uri=Annotated[Text, AfterValidator(_loopback_address)],
)
