"""What an owner may write under `webhooks`."""

from __future__ import annotations

import pytest

from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.serialization import serialize_redacted
from discovery_engine.config.settings import Settings
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.errors import ConfigurationError
from discovery_engine.registry.codec import settings_from_text, settings_to_text
from tests.rows import rows

OPS = b"""
webhooks:
  ops:
    url: https://hooks.example.com/d?key=s3cret
    secret: ["${secret:NEW}", "${OLD}"]
    events: [server.failing, tool.*]
    servers: "git*"
    timeout: 5
  off: {url: "${HOOK_URL}", secret: "${HOOK_KEY}", private: true, enabled: false}
"""


def parsed(text: bytes) -> Settings:
    return parse_settings(text, file="discovery.yaml")


def problem(entry: str, name: str = "ops") -> str:
    with pytest.raises(ConfigurationError) as caught:
        parsed(f"webhooks:\n  {name}: {entry}\n".encode())
    return str(caught.value)


def with_url(url: str) -> str:
    return f"{{url: '{url}', secret: '${{KEY}}'}}"


@pytest.mark.requirement("WHK-2")
def test_a_webhook_is_read_shown_and_remembered_without_what_may_be_secret() -> None:
    settings = parsed(OPS)

    assert settings.webhooks == (
        WebhookSettings(
            "ops",
            "https://hooks.example.com/d?key=s3cret",
            ("${secret:NEW}", "${OLD}"),
            ("server.failing", "tool.*"),
            ("git*",),
            timeout=5.0,
        ),
        WebhookSettings("off", "${HOOK_URL}", ("${HOOK_KEY}",), private=True, enabled=False),
    )
    assert "s3cret" not in str(serialize_redacted(settings))
    assert list(serialize_redacted(settings)["webhooks"]) == ["ops", "off"]
    text = settings_to_text(settings)
    assert not any(secret in text for secret in ("s3cret", "hooks.example.com", "secret:NEW"))
    assert [one.name for one in settings_from_text(text).webhooks] == ["ops", "off"]


@pytest.mark.requirement("WHK-2")
@rows(
    "secret",
    ["whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB", "${KEY:-whsec_QUFB}", "whsec_${KEY}", ""],
)
def test_a_literal_secret_is_refused_and_not_repeated(secret: str) -> None:
    message = problem(f"{{url: 'https://a.example', secret: '{secret}'}}")

    assert "webhooks.ops.secret" in message
    assert "must be a reference" in message
    assert "discovery secrets set" in message
    assert "QUFB" not in message


@pytest.mark.requirement("WHK-2", "WHK-14")
@rows(
    ("entry", "expected"),
    [
        (with_url("ftp://a.example"), "must be an http:// or https:// address"),
        (with_url("https://user@a.example"), "without a user"),
        (with_url("https://169.254.169.254/latest"), "never connected to"),
        (with_url("http://a.example"), "`private: true`"),
        ("{url: 'https://a.example'}", "secret"),
        ("{url: 'https://a.example', secret: '${A}', events: tool.add}", "'tool.added'"),
        ("{url: 'https://a.example', secret: '${A}', events: 'nothing.*'}", "server.added"),
        ("{url: 'https://a.example', secret: '${A}', servers: '/(/'}", "webhooks.ops.servers"),
        ("{url: 'https://a.example', secret: '${A}', timeout: 0}", "webhooks.ops.timeout"),
    ],
)
def test_a_mistake_names_its_place_and_what_is_expected(entry: str, expected: str) -> None:
    message = problem(entry)

    assert "webhooks.ops" in message
    assert expected in message
