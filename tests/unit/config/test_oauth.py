from __future__ import annotations

import json
from typing import Any

import pytest

from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.serialization import serialize_redacted
from discovery_engine.config.settings import OAuthSettings, RemoteTransport, ServerSettings
from discovery_engine.config.syntax import is_loopback_redirect, is_secure_address
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.server_identity import written_identity
from discovery_engine.upstream.connection import connection_fingerprint, resolved_transport
from tests.factories import make_settings
from tests.rows import rows

URL = "https://files.example/mcp"


def loaded(oauth: Any, **entry: Any) -> ServerSettings:
    document = {"servers": {"files": {"url": URL, "oauth": oauth, **entry}}}
    [server] = parse_settings(json.dumps(document).encode(), file="f").servers
    return server


@rows(
    ("oauth", "problem"),
    [
        ({"clientSecret": "s"}, "without a clientId"),
        ({"grant": "client_credentials"}, "needs a clientId and a clientSecret"),
        ({"grant": "password"}, "grant"),
        ({"scopes": ["a b"]}, "space"),
        ({"scopes": 'a"'}, "quote"),
        ({"authServerMetadataUrl": "http://login.example/x"}, "no https address"),
        ({"authServerMetadataUrl": "file:///etc/passwd"}, "no https address"),
        ({"clientMetadataUrl": "https://example.com"}, "with a path"),
        ({"redirectUri": "https://example.com/callback"}, "loopback"),
        ({"redirectUri": "http://127.0.0.1/callback"}, "loopback"),
        ({"redirectUri": "http://127.0.0.1:99999/callback"}, "loopback"),
        ({"clientID": "x"}, "clientId"),
    ],
)
def test_a_wrong_oauth_is_a_problem_of_its_server(oauth: Any, problem: str) -> None:
    server = loaded(oauth)

    assert server.problem
    assert problem in str(server.problem)


def test_oauth_stands_beside_a_url_without_a_header_that_logs_in() -> None:
    beside = loaded({"clientId": "x"}, headers={"authorization": "Bearer ${X}"})
    entry = {"command": "true", "oauth": {"clientId": "x"}}
    document = json.dumps({"servers": {"a": entry}}).encode()
    [program] = parse_settings(document, file="f").servers

    assert "Authorization header" in str(beside.problem)
    assert "without a url" in str(program.problem)


@rows("nothing", [None, {}])
def test_an_empty_oauth_is_none(nothing: Any) -> None:
    transport = loaded(nothing).transport

    assert transport == RemoteTransport(URL)


def server(**oauth: Any) -> ServerSettings:
    return ServerSettings(ServerName("files"), RemoteTransport(URL, oauth=OAuthSettings(**oauth)))


def test_a_secret_is_shown_as_its_reference_only() -> None:
    literal = server(client_id="ours", client_secret="geheim-9-geheim")
    reference = server(client_id="ours", client_secret="${OURS}")

    shown = serialize_redacted(make_settings(literal))["servers"]["files"]["oauth"]
    assert (shown["clientId"], "geheim" in json.dumps(shown)) == ("ours", False)
    shown = serialize_redacted(make_settings(reference))["servers"]["files"]["oauth"]
    assert shown["clientSecret"] == "${OURS}"


def test_client_and_secret_are_resolved_and_a_missing_one_is_named() -> None:
    from discovery_engine.errors import NeedsConfigError
    from discovery_engine.secrets.resolver import EnvironmentResolver

    given = server(client_id="${ID}", client_secret="${SECRET}")
    found = resolved_transport(given, EnvironmentResolver({"ID": "x", "SECRET": "y"}))

    assert isinstance(found, RemoteTransport)
    assert (found.oauth.client_id, found.oauth.client_secret) == ("x", "y")
    with pytest.raises(NeedsConfigError) as caught:
        resolved_transport(given, EnvironmentResolver({"ID": "x"}))
    assert [one.field for one in caught.value.missing] == ["oauth.clientSecret"]


def test_what_is_pinned_changes_with_oauth_but_not_with_its_secret_nor_the_connection() -> None:
    plain, given = server(), server(client_id="x", client_secret="one")
    other = server(client_id="x", client_secret="two")

    assert written_identity(plain) != written_identity(given) == written_identity(other)
    assert connection_fingerprint(plain) == connection_fingerprint(given)


@rows(
    ("url", "is_secure"),
    [
        ("https://a.example/x", True),
        ("http://127.0.0.1:8/x", True),
        ("http://localhost/x", True),
        ("http://[::1]:8/x", True),
        ("http://a.example/x", False),
        ("http://127.0.0.1.evil.example/x", False),
        ("http://localhost.evil.example/x", False),
        ("http://127.0.0.1@evil.example/x", False),
        ("http://2130706433/x", False),
        ("ftp://127.0.0.1/x", False),
        ("javascript:alert(1)", False),
        ("https:///x", False),
        ("https://a.example\\@evil.example/", False),
        ("https://a.example:99999/", False),
        ("https://[/", False),
        ("", False),
    ],
)
def test_only_https_and_this_machine_are_secure(url: str, is_secure: bool) -> None:
    assert is_secure_address(url) is is_secure


@rows("url", ["http://user@127.0.0.1:8/", "http://127.0.0.1:8/?a", "http://["])
def test_a_redirect_address_is_plain(url: str) -> None:
    assert not is_loopback_redirect(url)
