"""Logins against a real authorization server; the browser is an HTTP client that follows."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import httpx2
import pytest

from discovery_engine.errors import (
    LoginError,
    NeedsAuthError,
    SecretStoreError,
    UnavailableError,
    UntrustedServerError,
)
from discovery_engine.secret_store.encrypted_store import EncryptedStore
from discovery_engine.secret_store.keys import VARIABLE
from discovery_engine.view.status import ServerReport
from tests.contract.oauth.conftest import OpenEngine
from tests.engines import summary, tool_names
from tests.oauth import OAuthWorld, query_of
from tests.ports import free_port
from tests.servers.programs import text_of

pytestmark = pytest.mark.anyio


def stored(folder: Path) -> tuple[str, ...]:
    return EncryptedStore(folder / "data", {}).names()


def never(address: str) -> None:
    raise AssertionError(f"a browser was wanted for {address}")


@pytest.mark.requirement("AUT-1")
async def test_a_server_without_a_login_needs_one_and_is_used_after_it(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    async with engine_of() as engine:
        await engine.refresh()
        before: ServerReport = summary(engine.view, "files")
        with pytest.raises(NeedsAuthError) as caught:
            await engine.execute("files", "read_file", {})

        report = await engine.logins.log_in("files", world.browser())
        await engine.refresh(["files"])

        assert (before.state, before.hint) == ("needs_auth", "`discovery login files`")
        assert caught.value.hint == "`discovery login files`"
        assert (report.scopes, report.is_refreshable) == (("read",), True)
        assert tool_names(engine.view, "files") == ["read_file", "tell_token", "write_file"]
        assert text_of(await engine.execute("files", "read_file", {})) == "done"


@pytest.mark.requirement("AUT-1")
async def test_a_login_that_only_one_of_both_handshakes_wants_is_what_is_missing(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    world.control(handshake="refused")

    async with engine_of() as engine:
        await engine.refresh()
        before: ServerReport = summary(engine.view, "files")
        await engine.logins.log_in("files", world.browser())
        await engine.refresh(["files"])

        assert (before.state, before.hint) == ("needs_auth", "`discovery login files`")
        assert summary(engine.view, "files").state == "ready"


@pytest.mark.requirement("AUT-2")
async def test_the_flow_is_bound_by_pkce_state_and_resource(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    shown: list[str] = []

    def browse(address: str) -> None:
        shown.append(address)
        world.visit(address)

    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser(browse))

    [asked] = map(query_of, shown)
    [exchanged] = [one["form"] for one in world.requests("/token")]
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert len(asked["state"]) >= 40
    assert asked["redirect_uri"].startswith("http://127.0.0.1:")
    assert asked["resource"] == exchanged["resource"] == world.resource
    assert len(exchanged["code_verifier"]) >= 43
    assert exchanged["redirect_uri"] == asked["redirect_uri"]


@pytest.mark.requirement("AUT-3")
async def test_a_registered_client_is_used_with_its_secret_by_reference(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    redirect = f"http://127.0.0.1:{free_port()}/back"
    client = {"client_id": "ours", "client_secret": "s3cret/+", "redirect_uris": [redirect]}
    method = {"token_endpoint_auth_method": "client_secret_basic", "scope": "read"}
    world.control(clients=[client | method])
    oauth = {"clientId": "ours", "clientSecret": "${OURS}", "redirectUri": redirect}

    async with engine_of(oauth=oauth, environ={"OURS": "s3cret/+"}) as engine:
        await engine.logins.log_in("files", world.browser())

        assert text_of(await engine.execute("files", "read_file", {})) == "done"
    assert world.count("registered") == 0
    [exchanged] = [one["form"] for one in world.requests("/token")]
    assert "client_secret" not in exchanged


@pytest.mark.requirement("AUT-3")
async def test_a_client_id_metadata_document_takes_the_place_of_a_registration(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    document = "https://example.com/discovery.json"
    redirect = f"http://127.0.0.1:{free_port()}/callback"
    world.control(
        clients=[
            {
                "client_id": document,
                "redirect_uris": [redirect],
                "token_endpoint_auth_method": "none",
                "scope": "read",
            }
        ]
    )

    async with engine_of(oauth={"clientMetadataUrl": document, "redirectUri": redirect}) as engine:
        await engine.logins.log_in("files", world.browser())

    assert world.count("registered") == 0
    assert world.requests("/token")[0]["form"]["client_id"] == document


@pytest.mark.requirement("AUT-3")
async def test_without_registration_and_client_it_is_said_what_to_configure(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    world.control(metadata={"registration_endpoint": None})

    async with engine_of() as engine:
        with pytest.raises(LoginError, match="registers no client") as caught:
            await engine.logins.log_in("files", never)

    assert "oauth.clientId" in caught.value.hint


@pytest.mark.thorough
@pytest.mark.requirement("AUT-4")
async def test_a_denied_consent_is_an_error_and_nothing_is_stored(
    engine_of: OpenEngine, world: OAuthWorld, tmp_path: Path
) -> None:
    world.control(denies=True)

    async with engine_of() as engine:
        with pytest.raises(LoginError, match="refused in the browser"):
            await engine.logins.log_in("files", world.browser())

    assert stored(tmp_path) == ()
    assert world.requests("/token") == []


@pytest.mark.requirement("AUT-4")
async def test_a_person_who_does_not_come_back_ends_the_login(
    engine_of: OpenEngine, tmp_path: Path
) -> None:
    async with engine_of() as engine:
        with pytest.raises(LoginError, match="in time") as caught:
            await engine.logins.log_in("files", lambda _: None, timeout=0.01)

    assert "--timeout" in caught.value.hint
    assert stored(tmp_path) == ()


@pytest.mark.thorough
@pytest.mark.requirement("AUT-5")
@pytest.mark.parametrize(
    "change",
    [
        lambda fields: {**fields, "state": "forged"},
        lambda fields: {k: v for k, v in fields.items() if k != "state"},
        lambda _: {"error": "access_denied", "state": "forged"},
    ],
)
async def test_an_answer_with_another_state_changes_nothing(
    engine_of: OpenEngine, world: OAuthWorld, change: Any
) -> None:
    statuses: list[int] = []

    def attacked(address: str) -> None:
        fields = query_of(address)
        forged = change({"code": "stolen", "state": fields["state"]})
        target = fields["redirect_uri"]
        statuses.append(httpx2.get(target, params=forged).status_code)
        statuses.append(httpx2.get(target.replace("callback", "other")).status_code)
        statuses.append(httpx2.post(target, json={}).status_code)
        world.visit(address)

    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser(attacked))

    assert statuses == [400, 400, 400]
    assert [one["form"]["code"] for one in world.requests("/token")] != ["stolen"]


@pytest.mark.requirement("AUT-5")
@pytest.mark.parametrize("issuer", ["https://evil.example/", "none"])
async def test_a_code_of_another_issuer_is_not_exchanged(
    engine_of: OpenEngine, world: OAuthWorld, tmp_path: Path, issuer: str
) -> None:
    world.control(iss=issuer)

    async with engine_of() as engine:
        with pytest.raises(LoginError, match="another authorization server"):
            await engine.logins.log_in("files", world.browser())

    assert world.requests("/token") == []
    assert stored(tmp_path) == ()


@pytest.mark.requirement("AUT-5")
async def test_a_page_of_the_loopback_port_repeats_no_word_of_a_request(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    pages: list[httpx2.Response] = []

    def browse(address: str) -> None:
        fields = query_of(address)
        mark = {"state": "<script>", "error_description": "<script>"}
        pages.append(httpx2.get(fields["redirect_uri"], params=mark))
        world.visit(address)

    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser(browse))

    [page] = pages
    assert "<script>" not in page.text
    assert page.headers["content-security-policy"] == "default-src 'none'"


@pytest.mark.requirement("AUT-4")
async def test_a_taken_port_is_named(engine_of: OpenEngine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        redirect = f"http://127.0.0.1:{taken.getsockname()[1]}/callback"
        async with engine_of(oauth={"redirectUri": redirect}) as engine:
            with pytest.raises(LoginError, match=r"oauth\.redirectUri") as caught:
                await engine.logins.log_in("files", never)

    assert "another" in caught.value.hint


@pytest.mark.thorough
@pytest.mark.requirement("AUT-6")
@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"code_challenge_methods_supported": None}, "PKCE"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"issuer": "https://evil.example/"}, "refuses"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "publishes no"),
        ({"authorization_endpoint": "file:///etc/passwd"}, "publishes no"),
        ({"authorization_endpoint": "http://evil.example/x"}, "refuses"),
        ({"token_endpoint": "http://evil.example/x"}, "refuses"),
        ({"registration_endpoint": "http://10.0.0.1/x"}, "refuses"),
    ],
)
async def test_metadata_that_cannot_be_trusted_opens_no_browser(
    engine_of: OpenEngine, world: OAuthWorld, metadata: dict[str, Any], reason: str
) -> None:
    world.control(metadata=metadata)

    async with engine_of() as engine:
        with pytest.raises(LoginError, match=reason):
            await engine.logins.log_in("files", never)

    assert world.count("registered") == 0


@pytest.mark.requirement("AUT-28")
async def test_members_of_a_neighbouring_type_are_read(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    protected = "/.well-known/oauth-protected-resource/mcp"
    resource = {"resource": world.resource, "authorization_servers": [world.issuer]}
    issued = {"scope": ["read"], "expires_in": "3600", "token_type": None, "id_token": 7}
    rows: list[dict[str, Any]] = [
        {"members": {"/token": issued}},
        {"members": {"/token": {"scope": {"read": True}, "refresh_token": False}}},
        {"members": {"/register": {"scope": ["read"], "redirect_uris": "", "contacts": "me"}}},
        {"members": {"/register": {"client_secret_expires_at": "never", "client_uri": "none"}}},
        {"metadata": {"code_challenge_methods_supported": "plain S256", "issuer": [world.issuer]}},
        {"metadata": {"scopes_supported": "read,write", "revocation_endpoint": "none"}},
        {"metadata": {"grant_types_supported": [None, "authorization_code", 5]}},
        {"resource": {protected: {**resource, "authorization_servers": world.issuer}}},
        {"resource": {protected: {**resource, "authorization_servers": ["", world.issuer]}}},
        {"resource": {protected: {**resource, "scopes_supported": "read", "jwks_uri": "none"}}},
    ]
    outcomes = {}

    async with engine_of() as engine:
        for row in rows:
            world.control(reset=True)
            world.control(**row)
            try:
                await engine.logins.log_in("files", world.browser())
                outcomes[str(row)] = text_of(await engine.execute("files", "read_file", {}))
            except LoginError as error:
                outcomes[str(row)] = f"{error} {error.detail}"

    assert {row: outcome for row, outcome in outcomes.items() if outcome != "done"} == {}


@pytest.mark.requirement("AUT-6")
async def test_metadata_of_another_resource_is_refused(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    other = {"resource": "https://bank.example/mcp", "authorization_servers": [world.issuer]}
    world.control(resource={"/.well-known/oauth-protected-resource/mcp": other})

    async with engine_of() as engine:
        with pytest.raises(LoginError) as caught:
            await engine.logins.log_in("files", never)

    assert "another server" in caught.value.detail


@pytest.mark.requirement("AUT-7")
async def test_a_missing_scope_is_said_and_the_next_login_asks_for_it(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
        with pytest.raises(NeedsAuthError, match="lacks a scope") as caught:
            await engine.execute("files", "write_file", {})

        assert caught.value.hint == "`discovery login files`"
        assert "'write'" in caught.value.detail
        assert text_of(await engine.execute("files", "read_file", {})) == "done"
        assert (await engine.health())[0].state == "ready"

        world.control(scopes=["read", "write"])
        report = await engine.logins.log_in("files", world.browser())

        assert report.scopes == ("read", "write")
        assert text_of(await engine.execute("files", "write_file", {})) == "done"


@pytest.mark.requirement("AUT-7")
async def test_scopes_of_the_entry_and_of_the_command_are_requested(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    world.control(scopes=["read", "write"])

    async with engine_of(oauth={"scopes": ["read"]}) as engine:
        report = await engine.logins.log_in("files", world.browser(), scopes=("write",))

    assert report.scopes == ("read", "write")


@pytest.mark.requirement("AUT-6")
@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"command": "true"}, "program on this machine"),
        ({"url": "http://files.example/mcp"}, "not https"),
        ({"url": "https://f.example", "headers": {"authorization": "x"}}, "Authorization header"),
    ],
)
async def test_a_server_that_could_not_use_a_token_is_not_logged_in_to(
    engine_of: OpenEngine, tmp_path: Path, entry: dict[str, Any], reason: str
) -> None:
    config = tmp_path / "other.yaml"
    config.write_text(json.dumps({"servers": {"files": entry}}), "utf-8")

    async with engine_of(config=config) as engine:
        with pytest.raises(LoginError, match=reason):
            await engine.logins.log_in("files", never)


@pytest.mark.requirement("AUT-6")
async def test_a_server_that_publishes_no_authorization_is_said_to(
    engine_of: OpenEngine, tmp_path: Path
) -> None:
    from tests.servers.programs import http_server

    config = tmp_path / "other.yaml"
    with http_server("modern") as address:
        config.write_text(json.dumps({"servers": {"files": {"url": address}}}), "utf-8")
        async with engine_of(config=config) as engine:
            with pytest.raises(LoginError, match="publishes no authorization server"):
                await engine.logins.log_in("files", never)


@pytest.mark.requirement("AUT-6")
async def test_a_server_that_is_down_is_unavailable(engine_of: OpenEngine, tmp_path: Path) -> None:
    config = tmp_path / "other.yaml"
    url = f"http://127.0.0.1:{free_port()}/mcp"
    config.write_text(json.dumps({"servers": {"files": {"url": url}}}), "utf-8")

    async with engine_of(config=config) as engine:
        with pytest.raises(UnavailableError, match="connection refused"):
            await engine.logins.log_in("files", never)


@pytest.mark.requirement("AUT-6")
async def test_a_server_that_its_owner_has_not_approved_is_not_contacted(
    engine_of: OpenEngine, world: OAuthWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.config(tmp_path)
    monkeypatch.chdir(tmp_path)
    from discovery_engine.engine import open_engine

    async with open_engine(environ={}, data_dir=tmp_path / "data") as engine:
        with pytest.raises(UntrustedServerError):
            await engine.logins.log_in("files", never)

    assert world.control()["requests"] == []


@pytest.mark.requirement("AUT-6")
async def test_a_server_of_the_older_protocol_is_its_own_issuer(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    origin = world.resource.removesuffix("mcp")
    found = world.http.get(f"{world.issuer}.well-known/oauth-authorization-server").json()
    world.control(
        iss=origin,
        resource={
            "/.well-known/oauth-protected-resource/mcp": {"none": "here"},
            "/.well-known/oauth-protected-resource": {"none": "here"},
            "/.well-known/oauth-authorization-server": {**found, "issuer": origin},
        },
    )

    async with engine_of() as engine:
        report = await engine.logins.log_in("files", world.browser())

        assert report.issuer == origin
        assert text_of(await engine.execute("files", "read_file", {})) == "done"


@pytest.mark.requirement("AUT-3")
async def test_the_metadata_of_the_entry_names_the_authorization_server(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    missing = {"none": "here"}
    path = "/.well-known/oauth-protected-resource"
    world.control(resource={path: missing, f"{path}/mcp": missing})
    document = f"{world.issuer}.well-known/oauth-authorization-server"

    async with engine_of(oauth={"authServerMetadataUrl": document}) as engine:
        report = await engine.logins.log_in("files", world.browser())

    assert report.issuer == world.issuer


@pytest.mark.requirement("AUT-21")
async def test_a_store_that_cannot_be_used_is_found_before_the_browser(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    async with engine_of(environ={VARIABLE: "one"}) as engine:
        await engine.logins.log_in("files", world.browser())

    async with engine_of(environ={VARIABLE: "another"}) as engine:
        with pytest.raises(SecretStoreError, match="passphrase is not the one"):
            await engine.logins.log_in("files", never)


@pytest.mark.requirement("AUT-8")
async def test_a_logout_revokes_and_deletes(
    engine_of: OpenEngine, world: OAuthWorld, tmp_path: Path
) -> None:
    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
        await engine.execute("files", "read_file", {})

        report = await engine.logins.log_out("files")

        assert (report.deleted, report.revoked, report.failures) == (1, 1, ())
        assert stored(tmp_path) == ()
        assert world.control()["access"] == []
        with pytest.raises(NeedsAuthError, match="requires a login"):
            await engine.execute("files", "read_file", {})
        again = await engine.logins.log_out("files")
        assert (again.deleted, again.revoked) == (0, 0)


@pytest.mark.thorough
@pytest.mark.requirement("AUT-8")
@pytest.mark.parametrize("revocation", [None, "http://127.0.0.1:9/revoke"])
async def test_a_login_that_cannot_be_revoked_is_deleted_and_that_is_said(
    engine_of: OpenEngine, world: OAuthWorld, tmp_path: Path, revocation: str | None
) -> None:
    world.control(metadata={"revocation_endpoint": revocation})

    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
        report = await engine.logins.log_out("files")

    assert (report.deleted, report.revoked, len(report.failures)) == (1, 0, 1)
    assert stored(tmp_path) == ()


@pytest.mark.requirement("AUT-8")
async def test_a_server_that_is_configured_no_more_can_be_logged_out_of(
    engine_of: OpenEngine, world: OAuthWorld, tmp_path: Path
) -> None:
    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
    config = tmp_path / "empty.yaml"
    config.write_text("servers: {}", "utf-8")

    async with engine_of(config=config) as engine:
        report = await engine.logins.log_out("files")

    assert (report.deleted, report.revoked) == (1, 1)
