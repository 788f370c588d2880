"""Child processes: what they see of us, and how they end."""

from __future__ import annotations

import json
import os
import sys

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine.config.settings import StdioTransport
from discovery_engine.errors import (
    UnavailableError,
)
from tests.servers.programs import (
    call,
    descendants,
    eventually,
    fault_server,
    is_running,
    pid_of,
    program,
    upstreams,
)

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("UPS-20")
async def test_a_program_sees_none_of_our_environment_but_what_is_harmless_or_declared() -> None:
    canaries = {f"CANARY_{i}": "secret" for i in range(50)}
    ours = os.environ | canaries | {"LD_PRELOAD": "", "PYTHONPATH": "/x", "USER": "() { :; }"}
    server = fault_server(env={"DECLARED": "yes"})

    async with upstreams(environ=ours) as opened:
        environment = json.loads(await call(opened, server, "environment"))

    assert environment.pop("DECLARED") == "yes"
    assert "PATH" in environment
    assert {"USER", "LD_PRELOAD", "PYTHONPATH"}.isdisjoint(environment)
    assert canaries.keys().isdisjoint(environment)


PASSED = (
    *("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "https_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("UV_INDEX_URL", "PIP_EXTRA_INDEX_URL", "NPM_CONFIG_REGISTRY", "npm_config_registry"),
    *("XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
)
WITHHELD = (
    "DOCKER_HOST",
    "SSH_AUTH_SOCK",
    "UV_PUBLISH_TOKEN",
    "GITHUB_TOKEN",
    "MY_UV_X",
    "AWS_KEY",
)


@pytest.mark.requirement("UPS-20")
async def test_a_program_gets_what_reaches_the_network_and_what_its_owner_passes() -> None:
    ours = {name: f"of-{name}" for name in (*PASSED, *WITHHELD)} | {"PATH": os.environ["PATH"]}
    ours |= {"HTTP_PROXY": "() { :; }"}
    given: list[set[str]] = []

    for named in ((), ("SSH_AUTH_SOCK", "AWS_*")):
        async with upstreams(environ=ours, pass_env=lambda named=named: named) as opened:
            environment = json.loads(await call(opened, fault_server(), "environment"))
        given.append({name for name, value in environment.items() if value == f"of-{name}"})

    assert given[0] == {*PASSED} - {"HTTP_PROXY"}
    assert given[1] == {*PASSED, "SSH_AUTH_SOCK", "AWS_KEY"} - {"HTTP_PROXY"}


PASS = "`server.passEnv`"
HINTS = {
    "UnknownIssuer": ("invalid peer certificate: UnknownIssuer", "CURL_CA_BUNDLE", PASS),
    "x509": ("x509: certificate signed by unknown authority", "GIT_SSL_CAINFO", PASS),
    "proxy": ("npm error ECONNREFUSED registry", "CORP_HTTP_PROXY", PASS),
    "docker": ("Cannot connect to the Docker daemon at unix:///x", "DOCKER_HOST", PASS),
    "ssh": ("git@host: Permission denied (publickey).", "SSH_AUTH_SOCK", PASS),
    "required": (
        "Error: BRAVE_API_KEY environment variable is required",
        "`discovery secrets set broken/BRAVE_API_KEY`",
        "`env: {BRAVE_API_KEY: ${secret:broken/BRAVE_API_KEY}}`",
    ),
    "KeyError": ("KeyError: 'SHOP_TOKEN'", "broken/SHOP_TOKEN", "`env: {SHOP_TOKEN: "),
    "please set": ("Please set SHOP_API_KEY in your environment", "broken/SHOP_API_KEY", "secrets"),
    "plain": ("Missing environment variable: DATABASE_PATH", "`env: {DATABASE_PATH: …}`", "broken"),
    "set here": ("HOME_BASE is not set", "`env: {HOME_BASE: ${HOME_BASE}}`", "'broken'"),
}  # fmt: skip


@pytest.mark.requirement("UPS-95")
async def test_a_variable_that_a_failed_start_lacks_is_named_with_the_way_to_give_it() -> None:
    ours = dict.fromkeys(
        ("CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CORP_HTTP_PROXY", "DOCKER_HOST", "SSH_AUTH_SOCK"), "x"
    ) | {"PATH": os.environ["PATH"], "HOME_BASE": "/srv"}
    silent = {
        "its own": ("KeyError: 'GIVEN_KEY'", "GIVEN_KEY"),
        "an error code": ("Error [ERR_MODULE_NOT_FOUND]: missing required module", "ERR_"),
        "passed already": ("invalid peer certificate: UnknownIssuer", "SSH_AUTH_SOCK"),
    }
    wrong: list[str] = []

    async with upstreams(environ=ours) as opened:
        for name, (line, *named) in (HINTS | silent).items():
            command = ("-c", 'echo "$0" >&2; exit 1', line)
            server = program("sh", *command, env={"GIVEN_KEY": "given"})
            opened.reset_backoff(server.name)
            with pytest.raises(UnavailableError) as caught:
                await opened.list_tools(server)
            if any((one in caught.value.hint) is (name in silent) for one in named):
                wrong.append(f"{name}: {caught.value.hint}")

    assert wrong == []


@pytest.mark.parametrize(
    "command", ["x; touch M", "$(touch M)", "`touch M`", "true && touch M", "true\ntouch M"]
)
@pytest.mark.requirement("UPS-21")
async def test_no_shell_reads_a_command(command: str, tmp_path) -> None:
    server = program(command, cwd=str(tmp_path))

    async with upstreams() as opened:
        with pytest.raises(UnavailableError):
            await opened.list_tools(server)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("UPS-21")
async def test_arguments_and_the_working_directory_arrive_as_they_are(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    server = fault_server()
    assert isinstance(server.transport, StdioTransport)
    words = ("/d", "/c", server.transport.command, *server.transport.args)
    written = replace(server.transport, command="cmd", args=words, cwd=f"~/{tmp_path.name}")
    server = replace(server, transport=written)

    async with upstreams() as opened:
        where = await call(opened, server, "cwd")

    assert where == str(tmp_path)


@pytest.mark.thorough
@pytest.mark.requirement("UPS-22")
async def test_stubborn_programs_are_ended_together() -> None:
    servers = [fault_server("stubborn", name=f"stubborn{i}") for i in range(10)]

    with anyio.fail_after(60) as limit:
        async with upstreams() as opened:
            pids = [await pid_of(opened, server) for server in servers]
            limit.deadline = anyio.current_time() + 27  # one after the other they would take 30 s

    assert not any(is_running(pid) for pid in pids)


@pytest.mark.thorough
@pytest.mark.requirement("UPS-22")
async def test_what_a_program_started_is_ended_with_it() -> None:
    starts_a_child = "import subprocess, sys; subprocess.call([sys.executable, *sys.argv[1:]])"
    inner = fault_server("stubborn").transport
    server = program(sys.executable, "-I", "-c", starts_a_child, *inner.args)

    async with upstreams() as opened:
        await opened.list_tools(fault_server())  # the reaper comes with the first program
        before = descendants()
        await opened.list_tools(server)
        started = descendants() - before

    assert len(started) == 2
    await eventually(lambda: not any(is_running(pid) for pid in started))


@pytest.mark.requirement("UPS-23")
async def test_a_program_may_write_as_many_complaints_as_it_likes() -> None:
    server = fault_server("stderr_flood")

    async with upstreams() as opened:
        await opened.list_tools(server)
        answer = await call(opened, server, text="hi")
        stderr = opened.sessions()[server.name].stderr

    assert json.loads(answer) == {"text": "hi"}
    assert len(stderr.splitlines()) == 20
