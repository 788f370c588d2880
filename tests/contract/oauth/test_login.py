"""Logins against a real authorization server; the browser is an HTTP client that follows."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from discovery_engine import open_engine
from discovery_engine.errors import (
    DiscoveryError,
    LoginError,
    NeedsAuthError,
    UnavailableError,
    UntrustedServerError,
)
from tests.contract.oauth.conftest import OpenEngine
from tests.forked import Finished, Preloaded, drained
from tests.oauth import OAuthWorld, query_of
from tests.ports import free_port
from tests.servers.programs import text_of

PATIENCE = 60.0


def stored(folder: Path) -> list[str]:
    """The names of what is stored; they are not encrypted."""
    file = folder / "data" / "secrets.json"
    return sorted(json.loads(file.read_text("utf-8"))["secrets"]) if file.exists() else []


def never(address: str) -> None:
    raise AssertionError(f"a browser was wanted for {address}")


class Command:
    """One run, whose stderr is read for the address to open."""

    def __init__(self, forked: Preloaded, words: Sequence[str], folder: Path) -> None:
        self._forked = forked
        out, outlet = os.pipe()
        err, errlet = os.pipe()
        streams = (os.open(os.devnull, os.O_RDONLY), outlet, errlet)
        config = ["--config", str(folder / "discovery.yaml"), "--data-dir", str(folder / "data")]
        environ = {**os.environ, "BROWSER": "/bin/false %s"}
        forked.start([*config, *words], streams, cwd=folder, environ=environ)
        self._out = ThreadPoolExecutor(1).submit(drained, out)
        self._stderr = os.fdopen(err, encoding="utf-8")
        self._err = ""

    def address(self) -> str:
        for line in self._stderr:
            self._err += line
            if line.startswith("  http"):
                return line.strip()
            if line.startswith("{"):
                return str(json.loads(line)["authorization_url"])
        raise AssertionError(self._err)

    def end(self) -> Finished:
        with self._stderr:
            err = self._err + self._stderr.read()
        out = self._out.result(PATIENCE)
        return Finished(self._forked.wait(), out.decode(), err)


class Terminal:
    """What runs commands in one folder."""

    def __init__(self, forked: Preloaded, world: OAuthWorld, folder: Path) -> None:
        self._forked = forked
        self._world = world
        self.folder = folder
        world.config(folder)

    def run(self, words: str) -> Finished:
        return Command(self._forked, words.split(), self.folder).end()

    def log_in(self, *words: str) -> Finished:
        command = Command(self._forked, ["login", "files", *words], self.folder)
        self._world.visit(command.address())
        return command.end()


@pytest.fixture
def terminal(forked: Preloaded, world: OAuthWorld, tmp_path: Path) -> Terminal:
    return Terminal(forked, world, tmp_path)


@pytest.mark.requirement("AUT-1", "CLI-2")
def test_a_server_without_a_login_needs_one_and_is_used_after_it(
    world: OAuthWorld, terminal: Terminal
) -> None:
    before = terminal.run("list --status")
    called = terminal.run("execute files read_file")

    done = terminal.log_in()

    assert "needs_auth" in before.out
    assert (called.code, terminal.run("refresh").code) == (6, 0)
    assert "hint: `discovery --config" in called.err  # as it was typed
    assert "login files`" in called.err
    assert (done.code, done.out) == (0, "")
    assert f"logged in to files at {world.issuer}" in done.err
    assert "files: 3 tools" in done.err
    again = terminal.run("execute files read_file")
    assert (again.code, again.out) == (0, "done\n")


@pytest.mark.requirement("CLI-3", "AUT-4")
def test_a_login_that_fails_says_what_to_do_and_stores_nothing(
    world: OAuthWorld, terminal: Terminal
) -> None:
    late = terminal.run("login files --timeout 0.1")
    world.control(denies=True)
    denied = terminal.log_in("--json")

    assert late.code == 6
    assert "it was not completed in the browser" in late.err
    assert "--timeout" in late.err
    assert (denied.code, denied.out) == (6, "")
    address, *_, failed = map(json.loads, denied.err.splitlines())
    assert address["authorization_url"].startswith(world.issuer)
    assert (failed["error"]["code"], failed["error"]["exit_code"]) == ("LOGIN_FAILED", 6)
    assert "the login was refused in the browser" in failed["error"]["message"]
    assert stored(terminal.folder) == []
    assert world.requests("/token") == []


@pytest.mark.anyio
@pytest.mark.requirement("CLI-3", "AUT-4")
async def test_a_login_fails_with_the_reason_where_nothing_can_answer(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        redirect = f"http://127.0.0.1:{taken.getsockname()[1]}/back"
        async with engine_of(oauth={"clientId": "ours", "redirectUri": redirect}) as engine:
            with pytest.raises(LoginError, match="cannot be listened at") as occupied:
                await engine.logins.log_in("files", never)
    world.control(token="503")
    async with engine_of() as engine:
        with pytest.raises(UnavailableError) as down:
            await engine.logins.log_in("files", world.browser())

    assert "write another `oauth.redirectUri`" in occupied.value.hint
    assert down.value.server == "files"


@pytest.mark.anyio
@pytest.mark.requirement("AUT-3")
async def test_the_client_is_that_of_the_entry_or_its_document(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    document = "https://example.com/discovery.json"
    redirect = f"http://127.0.0.1:{free_port()}/back"
    ours = {"client_id": "ours", "client_secret": "s3cret/+", "redirect_uris": [redirect]}
    ours["token_endpoint_auth_method"] = "client_secret_basic"
    public = {"client_id": document, "redirect_uris": [redirect]}
    public["token_endpoint_auth_method"] = "none"
    clients = [client | {"scope": "read"} for client in (ours, public)]
    world.control(clients=clients, metadata={"registration_endpoint": None})
    oauth = {"clientId": "ours", "clientSecret": "${OURS}", "redirectUri": redirect}

    async with engine_of(oauth=oauth, environ={"OURS": "s3cret/+"}) as engine:
        await engine.logins.log_in("files", world.browser())
        assert text_of(await engine.execute("files", "read_file", {})) == "done"
    async with engine_of(oauth={"clientMetadataUrl": document, "redirectUri": redirect}) as engine:
        await engine.logins.log_in("files", world.browser())
    async with engine_of() as engine:
        with pytest.raises(LoginError, match="registers no client") as caught:
            await engine.logins.log_in("files", never)

    first, second = (one["form"] for one in world.requests("/token"))
    assert "client_secret" not in first
    assert second["client_id"] == document
    assert world.count("registered") == 0
    assert "oauth.clientId" in caught.value.hint


@pytest.mark.anyio
@pytest.mark.requirement("AUT-5")
async def test_no_forged_answer_counts_and_the_flow_is_bound_to_its_login(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    asked: list[dict[str, str]] = []
    pages: list[httpx2.Response] = []

    def attacked(address: str) -> None:
        fields = query_of(address)
        target, state = fields["redirect_uri"], fields["state"]
        asked.append(fields)
        mark = {"state": "<script>", "error_description": "<script>"}
        forged = [
            {"code": "stolen", "state": "forged"},
            {"code": "stolen"},
            {"error": "access_denied", "state": "forged"},
            mark,
        ]
        pages.extend(httpx2.get(target, params=fields) for fields in forged)
        pages.append(httpx2.get(target.replace("callback", "other"), params={"state": state}))
        pages.append(httpx2.post(target, json={}))
        world.visit(address)

    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser(attacked))

    assert [page.status_code for page in pages] == [400] * 6
    assert not any("<script>" in page.text for page in pages)
    [request] = asked
    [exchanged] = [one["form"] for one in world.requests("/token")]
    assert (request["response_type"], request["code_challenge_method"]) == ("code", "S256")
    assert len(request["state"]) >= 40
    assert request["redirect_uri"].startswith("http://127.0.0.1:")
    assert request["resource"] == exchanged["resource"] == world.resource
    assert exchanged["code"] != "stolen"
    assert len(exchanged["code_verifier"]) >= 43


@pytest.mark.anyio
@pytest.mark.requirement("AUT-5")
async def test_a_code_of_another_issuer_is_not_exchanged(
    engine_of: OpenEngine, world: OAuthWorld, tmp_path: Path
) -> None:
    async with engine_of() as engine:
        for issuer in ("https://evil.example/", "none"):
            world.control(iss=issuer)
            with pytest.raises(LoginError, match="another authorization server"):
                await engine.logins.log_in("files", world.browser())

    assert world.requests("/token") == []
    assert stored(tmp_path) == []


@pytest.mark.anyio
@pytest.mark.requirement("AUT-6")
async def test_metadata_that_cannot_be_trusted_opens_no_browser(
    engine_of: OpenEngine, world: OAuthWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = {"resource": "https://bank.example/mcp", "authorization_servers": [world.issuer]}
    untrusted: list[tuple[dict[str, Any], str]] = [
        ({"metadata": {"code_challenge_methods_supported": None}}, "PKCE"),
        ({"metadata": {"code_challenge_methods_supported": ["plain"]}}, "PKCE"),
        ({"metadata": {"issuer": "https://evil.example/"}}, "refuses"),
        ({"metadata": {"authorization_endpoint": "javascript:alert(1)"}}, "publishes no"),
        ({"metadata": {"authorization_endpoint": "http://evil.example/x"}}, "refuses"),
        ({"metadata": {"token_endpoint": "http://evil.example/x"}}, "refuses"),
        ({"metadata": {"registration_endpoint": "http://10.0.0.1/x"}}, "refuses"),
        ({"resource": {"/.well-known/oauth-protected-resource/mcp": bank}}, ""),
    ]
    async with engine_of() as engine:
        for orders, reason in untrusted:
            world.control(reset=True)
            world.control(**orders)
            with pytest.raises(LoginError, match=reason or None):
                await engine.logins.log_in("files", never)
            assert world.count("registered") == 0

    world.control(reset=True)
    monkeypatch.chdir(tmp_path)  # where the configuration is found, and not approved
    async with open_engine(environ={}, data_dir=tmp_path / "other") as engine:
        with pytest.raises(UntrustedServerError):
            await engine.logins.log_in("files", never)
    assert world.control()["requests"] == []


@pytest.mark.anyio
@pytest.mark.requirement("AUT-7")
async def test_a_missing_scope_is_said_and_the_next_login_asks_for_it(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
        with pytest.raises(NeedsAuthError, match="lacks a scope") as caught:
            await engine.execute("files", "write_file", {})
        assert "'write'" in caught.value.detail
        assert text_of(await engine.execute("files", "read_file", {})) == "done"

        world.control(scopes=["read", "write"])
        report = await engine.logins.log_in("files", world.browser())
        assert report.scopes == ("read", "write")
        assert text_of(await engine.execute("files", "write_file", {})) == "done"

    async with engine_of(oauth={"scopes": ["read"]}) as engine:
        report = await engine.logins.log_in("files", world.browser(), scopes=("write",))
    assert report.scopes == ("read", "write")


@pytest.mark.requirement("AUT-8")
def test_a_logout_revokes_and_deletes(world: OAuthWorld, terminal: Terminal) -> None:
    terminal.log_in()
    revoked = terminal.run("login files --revoke --json").json
    assert (revoked["deleted"], revoked["revoked"], revoked["failures"]) == (1, 1, [])
    assert world.control()["access"] == []
    assert terminal.run("execute files read_file").code == 6
    assert terminal.run("login files --revoke").err == "there was no login to files\n"

    world.control(metadata={"revocation_endpoint": "http://127.0.0.1:9/revoke"})
    terminal.log_in()
    config = terminal.folder / "discovery.yaml"
    config.write_text("servers: {}", "utf-8")  # the server is configured no more
    failed = terminal.run("login files --revoke --json").json
    assert (failed["deleted"], failed["revoked"], len(failed["failures"])) == (1, 0, 1)
    assert stored(terminal.folder) == []


def files_in(folder: Path) -> list[Path]:
    return [one for one in folder.rglob("*") if one.is_file()]


def leaks(secrets: Sequence[str], outputs: Mapping[str, bytes]) -> list[str]:
    """Where a part of a secret stands."""
    traces = [trace.encode() for one in secrets for trace in (one[:20], one[-12:], one[10:26])]
    return [name for name, data in outputs.items() if any(trace in data for trace in traces)]


@pytest.mark.anyio
@pytest.mark.requirement("AUT-24", "HEA-15")
async def test_no_file_log_error_event_or_output_holds_a_part_of_a_token(
    world: OAuthWorld, terminal: Terminal, tmp_path: Path
) -> None:
    before = os.umask(0)
    outputs: dict[str, bytes] = {}

    def add(name: str, done: Finished) -> None:
        outputs[name] = (done.out + done.err).encode()

    add("login", terminal.log_in("-vv"))
    os.umask(before)
    for words in ("-vv execute files read_file", "-vv execute files tell_token", "-vv refresh"):
        add(words, terminal.run(words))
    answers: list[Any] = []
    config = tmp_path / "discovery.yaml"
    async with open_engine(config, data_dir=tmp_path / "data") as engine:
        with engine.subscribe() as events:
            await engine.refresh()
            for tool in ("tell_token", "write_file", "read_file"):
                try:
                    answers.append(await engine.execute("files", tool, {}))
                except DiscoveryError as error:
                    answers.append([error.message, error.hint, error.detail, repr(error)])
            world.control(end=True)
            with pytest.raises(DiscoveryError):
                await engine.execute("files", "read_file", {})
            answers += [repr(await engine.health()), repr(engine.settings)]
            answers.append("\n".join(map(repr, events.drain())))
    outputs["answers"] = json.dumps(answers).encode()
    for words in ("list --status --json", "health files --json", "doctor --json", "config show"):
        add(words, terminal.run(words))
    add("login again", terminal.log_in("--json", "-vv"))
    files = files_in(tmp_path)
    outputs |= {str(one): one.read_bytes() for one in files}
    add("logout", terminal.run("-vv login files --revoke --json"))

    assert len(world.issued) >= 4
    assert b"I was sent Bearer" in outputs["answers"]  # it was there to be redacted
    assert b"POST" in outputs["login"]
    assert leaks(world.issued, outputs) == []
    modes = {one.stat().st_mode & 0o777 for one in files if one.name.startswith("secrets")}
    assert modes == {0o600}
