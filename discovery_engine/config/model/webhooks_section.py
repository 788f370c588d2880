"""The section `webhooks`: addresses to which events of servers and their tools are sent."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from discovery_engine._util.address_classes import is_reserved
from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.config.model.field_types import (
    Flag,
    Number,
    Patterns,
    Template,
    Word,
    custom_error,
    one_or_many,
)
from discovery_engine.config.model.section import Section
from discovery_engine.config.syntax import is_secure_address
from discovery_engine.config.webhook_settings import EVENT_TYPES, WebhookSettings
from discovery_engine.secrets.references import Reference, split

_DEFAULTS = WebhookSettings("")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MOST_SECRETS = 4
MOST_WEBHOOKS = 32


def _webhook_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        hint = "use letters, digits, `-` and `_`, and begin with a letter or a digit"
        raise custom_error(f"is no name for a webhook: {name!r}", hint=hint)
    return name


def _address(text: str) -> str:
    parts = split(text)
    if not text or (parts and isinstance(parts[0], Reference)):
        if text:
            return text
        raise custom_error("must not be empty", hint="write https://hooks.example.com/discovery")
    try:
        address = urlsplit(text)
        is_web = address.scheme in ("http", "https") and bool(address.hostname)
        is_plain = not (address.username or address.password or address.fragment)
    except ValueError:
        is_web = is_plain = False
    if not is_web or not is_plain or re.search(r"[\s\\]", text):
        raise custom_error(
            "must be an http:// or https:// address, without a user",
            hint='write https://hooks.example.com/discovery, or refer to it: "${HOOK_URL}"',
        )
    if is_reserved(address.hostname or ""):
        raise custom_error(
            "leads to an address that is never connected to: link-local, a cloud's metadata,"
            " multicast, or reserved",
            hint="name the host of the receiver",
        )
    return text


def _reference_only(text: str) -> str:
    parts = split(text)
    # The default of a reference stands in the file, too.
    if not parts or any(isinstance(one, str) or one.default for one in parts):
        raise custom_error(
            "must be a reference: others can read what is written in this file",
            hint="`discovery secrets set HOOK_KEY` stores it, then write"
            ' secret: "${secret:HOOK_KEY}"',
        )
    return text


def _event(text: str) -> str:
    if not any(fnmatchcase(one, text) for one in EVENT_TYPES):
        hint = did_you_mean(text, EVENT_TYPES) or f"types are: {', '.join(EVENT_TYPES)}"
        raise custom_error(f"is no type of event: {text!r}", hint=hint)
    return text


class WebhookEntry(Section):
    """An address to which events of servers and tools are sent, as signed HTTP requests."""

    url: Annotated[Template, AfterValidator(_address)] = Field(
        description="The address that each event is sent to with POST.",
        examples=["https://hooks.example.com/discovery"],
    )
    secret: Annotated[
        list[Annotated[Template, AfterValidator(_reference_only)]],
        one_or_many,
        Field(min_length=1, max_length=_MOST_SECRETS),
    ] = Field(
        description="The secret that signs, `whsec_` and base64 of 24 to 64 bytes. Refer to it, do "
        "not write it. Several sign while one takes the place of another.",
        examples=["${secret:HOOK_KEY}"],
    )
    events: Annotated[list[Annotated[Word, AfterValidator(_event)]], one_or_many] = Field(
        default=[],
        description="The types of events, as `server.failing` or `tool.*`; all if there is none.",
        examples=[["server.failing", "server.recovered", "tool.*"]],
    )
    servers: Patterns = Field(
        default=[],
        description="The only servers whose events are sent, as patterns; all if there is none.",
        examples=[["github", "jira-*"]],
    )
    private: Flag = Field(
        default=_DEFAULTS.private,
        description="Allow an address in your private network, and `http://` to it.",
        examples=[True],
    )
    timeout: Annotated[Number, Field(gt=0, le=60)] = Field(
        default=_DEFAULTS.timeout,
        description="Seconds that one attempt may take, the answer included.",
        examples=[5],
    )
    enabled: Flag = Field(
        default=_DEFAULTS.enabled,
        description="Whether events are sent; without it none is stored either.",
        examples=[False],
    )

    @model_validator(mode="after")
    def _is_not_read_by_others(self) -> WebhookEntry:
        if not (self.private or self.url.startswith("${") or is_secure_address(self.url)):
            raise custom_error(
                "must be an https:// address, or http:// of this machine",
                key="url",
                hint="with `private: true` it may be http:// in your own network",
            )
        return self

    def to_webhook(self, name: str) -> WebhookSettings:
        return self.to_settings(WebhookSettings, name=name)


WebhookName = Annotated[str, AfterValidator(_webhook_name)]
