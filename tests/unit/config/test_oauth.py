from __future__ import annotations

import json
from typing import Any

from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.settings import OAuthSettings, RemoteTransport, ServerSettings
from discovery_engine.config.syntax import is_secure_address
from discovery_engine.tools.model import ServerName
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


def server(**oauth: Any) -> ServerSettings:
    return ServerSettings(ServerName("files"), RemoteTransport(URL, oauth=OAuthSettings(**oauth)))


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
