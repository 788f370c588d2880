"""The `oauth` of a remote server: how its access tokens are obtained."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from discovery_engine.config.model.field_types import (
    SecretTemplate,
    Template,
    Text,
    Words,
    choice,
    custom_error,
)
from discovery_engine.config.model.section import Section
from discovery_engine.config.settings import OAuthSettings
from discovery_engine.config.syntax import is_loopback_redirect, is_secure_address

_DEFAULTS = OAuthSettings()
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


class OAuthSection(Section):
    """How access tokens of the server are obtained; `discovery login` uses it."""

    grant: Annotated[Literal["authorization_code", "client_credentials"], choice] = Field(
        default=_DEFAULTS.grant,
        description="`authorization_code` logs a person in with a browser; `client_credentials`"
        " is for machines and needs `clientId` and `clientSecret`.",
        examples=["client_credentials"],
    )
    client_id: Template = Field(
        default="",
        description="The id of a client that is registered already; without it `discovery login`"
        " registers one where the server allows it.",
        examples=["discovery-laptop"],
    )
    client_secret: SecretTemplate = Field(
        default="",
        description="The secret of that client. Refer to it, do not write it.",
        examples=["${FILES_CLIENT_SECRET}"],
    )
    scopes: Annotated[Words, AfterValidator(_scopes)] = Field(
        default=[],
        description="The scopes to request; by default those that the server asks for.",
        examples=[["files:read"]],
    )
    client_metadata_url: Annotated[Text, AfterValidator(_document_address)] = Field(
        default="",
        description="The address of a client id metadata document; it is the client id at"
        " servers that support it.",
        examples=["https://example.com/discovery-client.json"],
    )
    auth_server_metadata_url: Annotated[Text, AfterValidator(_secure_address)] = Field(
        default="",
        description="The address of the authorization server's metadata; by default the server"
        " names its authorization server.",
        examples=["https://login.example.com/.well-known/openid-configuration"],
    )
    redirect_uri: Annotated[Text, AfterValidator(_loopback_address)] = Field(
        default="",
        description="The loopback address that the browser returns to, if the client is"
        " registered with a fixed one; by default a free port of 127.0.0.1.",
        examples=["http://127.0.0.1:8765/callback"],
    )

    @model_validator(mode="after")
    def _is_complete(self) -> OAuthSection:
        if self.client_secret and not self.client_id:
            raise custom_error("has a secret without a clientId", key="clientId")
        if self.grant == "client_credentials" and not (self.client_id and self.client_secret):
            raise custom_error("client_credentials needs a clientId and a clientSecret")
        return self
