"""The section `webhooks`: addresses to which events of servers and their tools are sent."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from discovery_engine._util.address_classes import is_reserved
from discovery_engine._util.suggestions import did_you_mean
from discovery_engine.config.model.field_types import (
    Template,
    Word,
    custom_error,
    one_or_many,
)
from discovery_engine.config.model.section import section
from discovery_engine.config.syntax import is_secure_address
from discovery_engine.config.webhook_settings import EVENT_TYPES, WebhookSettings
from discovery_engine.secrets.references import Reference, split

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
    if not parts or any(isinstance(part, str) or part.default for part in parts):
        raise custom_error(
            "must be a reference: others can read what is written in this file",
            hint="`discovery secrets set HOOK_KEY` stores it, then write"
            ' secret: "${secret:HOOK_KEY}"',
        )
    return text


def _event(text: str) -> str:
    if not any(fnmatchcase(event_type, text) for event_type in EVENT_TYPES):
        hint = did_you_mean(text, EVENT_TYPES) or f"types are: {', '.join(EVENT_TYPES)}"
        raise custom_error(f"is no type of event: {text!r}", hint=hint)
    return text


def _is_not_read_by_others(webhook: Any) -> None:
    if not (webhook.private or webhook.url.startswith("${") or is_secure_address(webhook.url)):
        raise custom_error(
            "must be an https:// address, or http:// of this machine",
            key="url",
            hint="with `private: true` it may be http:// in your own network",
        )


WebhookEntry = section(
    WebhookSettings,
    name="WebhookEntry",
    check=_is_not_read_by_others,
    url=(Annotated[Template, AfterValidator(_address)], ...),
    secret=(
        Annotated[
            list[Annotated[Template, AfterValidator(_reference_only)]],
            one_or_many,
            Field(min_length=1, max_length=_MOST_SECRETS),
        ],
        ...,
    ),
    events=Annotated[list[Annotated[Word, AfterValidator(_event)]], one_or_many],
)
WebhookName = Annotated[str, AfterValidator(_webhook_name)]
