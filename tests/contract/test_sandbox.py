"""What a program in a sandbox can do, judged by what happens outside of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import pytest

from discovery_engine import Engine
from discovery_engine.errors import UnavailableError
from tests.sandboxes import Means, MeansState, find_means, landlock_version
from tests.server_entries import Entry, call, engine_of, fault, outcome, report_of
from tests.servers.programs import HERE, descendants, eventually, is_running

pytestmark = pytest.mark.anyio

SERVER = HERE / "trespassing_server.py"
CANARY = "canary-3f1c9a"
MANY = 10_000
OF_ROOT = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/kernel/modprobe")
"""With these root would run code outside of any sandbox."""


def finding(means: Means) -> MeansState:
    [found] = (one for one in find_means(os.environ) if one.means == means)
    return found


@pytest.fixture(params=["landlock", "bubblewrap"])
def kind(request: pytest.FixtureRequest) -> Means:
    means: Means = request.param
    if problem := finding(means).problem:
        pytest.skip(f"{means}: {problem}")
    return means


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home folder of the user, with something to steal."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text(CANARY, "utf-8")
    return home


def data_of(home: Path) -> Path:
    return home.parent / "data"


class Trespasser:
    """A server in a sandbox, which tries what it is told to."""

    def __init__(self, engine: Engine, name: str = "confined") -> None:
        self.engine = engine
        self._name = name

    async def __call__(self, tool: str, **arguments: Any) -> str:
        return await call(self.engine, self._name, tool, **arguments)

    async def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self("facts"))
        return found


def confined(kind: str, *, read: Sequence[str] = (), **more: Any) -> Entry:
    """An entry that is confined; what is no key of a sandbox is one of the entry."""
    keys = ("write", "network", "memoryMib", "processes")
    grants = {key: more.pop(key) for key in keys if key in more}
    sandbox = {"kind": kind, "read": [str(SERVER), *read], **grants}
    command = {"command": sys.executable, "args": ["-I", "-S", str(SERVER)]}
    return {**command, "sandbox": sandbox, **more}


def engine_at(
    home: Path, servers: Mapping[str, Entry], ours: Mapping[str, str] = MappingProxyType({})
) -> contextlib.AbstractAsyncContextManager[Engine]:
    environ = os.environ | {"HOME": str(home)} | ours
    return engine_of(home.parent, servers, environ=environ)


@contextlib.asynccontextmanager
async def started(
    home: Path,
    server: Entry,
    ours: Mapping[str, str] = MappingProxyType({}),
    *,
    name: str = "confined",
) -> AsyncIterator[Trespasser]:
    async with engine_at(home, {name: server}, ours) as engine:
        yield Trespasser(engine, name)


@pytest.mark.requirement("SBX-10")
async def test_the_home_folder_is_hidden(kind: Means, home: Path) -> None:
    async with started(home, confined(kind)) as trespasser:
        stolen = await trespasser("read", path=str(home / ".ssh" / "id"))
        listed = await trespasser("listing", path=str(home))

    assert CANARY not in stolen
    assert ".ssh" not in listed


@pytest.mark.requirement("SBX-10")
async def test_a_link_leads_nowhere_that_is_not_granted(
    kind: Means, home: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "link").symlink_to(home / ".ssh" / "id")

    async with started(home, confined(kind, write=(str(shared),))) as trespasser:
        stolen = await trespasser("read", path=str(shared / "link"))
        moved = await trespasser("rename", path=str(home / ".ssh" / "id"), to=str(shared / "id"))

    assert CANARY not in stolen
    assert "refused" in moved
    assert (home / ".ssh" / "id").read_text("utf-8") == CANARY


@pytest.mark.requirement("SBX-10")
async def test_passwords_of_the_system_are_hidden_from_servers_of_root(
    kind: Means, home: Path
) -> None:
    async with started(home, confined(kind)) as trespasser:
        users = await trespasser("read", path="/etc/passwd")
        passwords = await trespasser("read", path="/etc/shadow")
        keys = await trespasser("listing", path="/etc/ssl/private")

    assert "root:" in users
    assert "root:" not in passwords
    assert keys == "[]" or keys.startswith("refused")


@pytest.mark.requirement("SBX-11")
async def test_nothing_outside_is_written(kind: Means, home: Path, tmp_path: Path) -> None:
    read_only = tmp_path / "read-only"
    read_only.mkdir()
    (read_only / "file").write_text(CANARY, "utf-8")
    targets = [home / "x", tmp_path / "x", read_only / "x", Path("/usr/x"), Path("/etc/x")]

    async with started(home, confined(kind, read=(str(read_only),))) as trespasser:
        assert await trespasser("read", path=str(read_only / "file")) == CANARY
        for target in (*targets, read_only / "file", home / ".ssh" / "id"):
            await trespasser("write", path=str(target))
            await trespasser("truncate", path=str(target))

    assert not any(target.exists() for target in targets)
    assert (read_only / "file").read_text("utf-8") == CANARY
    assert (home / ".ssh" / "id").read_text("utf-8") == CANARY


@pytest.mark.requirement("SBX-11")
async def test_what_is_granted_may_be_read_and_written(
    kind: Means, home: Path, tmp_path: Path
) -> None:
    (home / "notes").mkdir()
    (home / "notes" / "a").write_text("read me", "utf-8")
    (tmp_path / "single").write_text("old", "utf-8")
    grants = ("~/notes", str(tmp_path / "single"))

    async with started(home, confined(kind, write=grants)) as trespasser:
        text = await trespasser("read", path=str(home / "notes" / "a"))
        await trespasser("write", path=str(home / "notes" / "b"))
        await trespasser("write", path=str(tmp_path / "single"))

    assert text == "read me"
    assert (home / "notes" / "b").read_text("utf-8") == "trespassed"
    assert (tmp_path / "single").read_text("utf-8") == "trespassed"


@pytest.mark.requirement("SBX-10")
async def test_a_server_keeps_a_home_folder_of_its_own(kind: Means, home: Path) -> None:
    first = confined(kind)

    async with started(home, first) as trespasser:
        own = (await trespasser.facts())["environment"]["HOME"]
        await trespasser("write", path=f"{own}/kept")
        temporary = (await trespasser.facts())["environment"]["TMPDIR"]
        assert await trespasser("write", path=f"{temporary}/x") == "written"
    async with started(home, first) as trespasser:
        assert await trespasser("read", path=f"{own}/kept") == "trespassed"
    async with started(home, first, name="other") as trespasser:
        assert "refused" in await trespasser("read", path=f"{own}/kept")

    assert not (await anyio.Path(temporary).exists())
    assert Path(own).is_relative_to(data_of(home) / "sandboxes")
    assert (data_of(home) / "sandboxes").stat().st_mode & 0o077 == 0


@contextlib.contextmanager
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as one:
        one.setblocking(False)
        yield one


def was_reached(one: socket.socket) -> bool:
    try:
        one.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.requirement("SBX-13")
async def test_no_connection_is_made_without_a_grant(kind: Means, home: Path) -> None:
    with listener() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        async with started(home, confined(kind)) as trespasser:
            await trespasser("connect", port=tcp.getsockname()[1])
            await trespasser("datagram", port=udp.getsockname()[1])

        assert not was_reached(tcp)
        with pytest.raises(BlockingIOError):
            udp.recv(100)


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.requirement("SBX-13")
async def test_sockets_of_other_programs_are_out_of_reach(
    kind: Means, home: Path, network: bool
) -> None:
    """As those of D-Bus, of Docker or of an SSH agent, which would do anything for it."""
    named = home / "agent.sock"
    with socket.socket(socket.AF_UNIX) as in_files, socket.socket(socket.AF_UNIX) as abstract:
        in_files.bind(str(named))
        abstract.bind(f"\0discovery-{os.getpid()}")
        for one in (in_files, abstract):
            one.listen()
            one.setblocking(False)
        async with started(home, confined(kind, network=network)) as trespasser:
            await trespasser("unix", address=str(named))
            await trespasser("unix", address=f"@discovery-{os.getpid()}")

        assert not was_reached(in_files)
        if network and kind == "bubblewrap" and not scopes_sockets():
            pytest.skip("this kernel confines no abstract sockets beside a network")
        assert not was_reached(abstract)


def scopes_sockets() -> bool:
    return landlock_version() >= 6


@pytest.mark.requirement("SBX-14")
async def test_ten_thousand_forks_are_stopped(kind: Means, home: Path) -> None:
    if any("processes" in gap for gap in finding(kind).gaps):
        pytest.skip(f"{kind} cannot limit the number of processes here: {finding(kind).gaps}")
    servers = {"healthy": fault(), "confined": confined(kind, processes=40)}

    async with engine_at(home, servers) as engine:
        before = descendants()
        most = 0

        async def count() -> None:
            nonlocal most
            while True:
                most = max(most, len(descendants() - before))
                assert json.loads(await call(engine, "healthy", nonce=most)) == {"nonce": most}
                await anyio.sleep(0.01)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            answer = await call(engine, "confined", "fork", count=MANY)
            tasks.cancel_scope.cancel()
        again = await call(engine, "confined", "fork", count=10)

    forked, _, refusal = answer.partition(";")
    assert "Resource temporarily unavailable" in refusal
    assert 0 < int(forked) < 40
    assert most <= 40 + 8  # the reaper, bubblewrap, the healthy server
    assert again == "10"


@pytest.mark.requirement("SBX-14")
async def test_memory_has_a_limit(kind: Means, home: Path) -> None:
    async with started(home, confined(kind, memoryMib=256)) as trespasser:
        small = await trespasser("allocate", mib=16)
        large = await trespasser("allocate", mib=1024)

    assert small == str(16 << 20)
    assert large.startswith("refused: MemoryError")


def tracer_of(pid: int) -> str:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return status.partition("TracerPid:\t")[2].partition("\n")[0]


def limits_of(pid: int) -> str:
    return Path(f"/proc/{pid}/limits").read_text("ascii")


@pytest.mark.requirement("SBX-15")
async def test_another_servers_process_is_out_of_reach(kind: Means, home: Path) -> None:
    servers = {"victim": fault(env={"TOKEN": CANARY}), "confined": confined(kind)}

    async with engine_at(home, servers) as engine:
        pid = int(await call(engine, "victim", "pid"))
        trespasser = Trespasser(engine)
        environment = await trespasser("read", path=f"/proc/{pid}/environ")
        root = await trespasser("listing", path=f"/proc/{pid}/root{home}/.ssh")
        await trespasser("trace", pid=pid)
        tracer = tracer_of(pid)
        before = limits_of(pid)
        await trespasser("limit", pid=pid)
        is_unlimited = limits_of(pid) == before
        await trespasser("kill", pid=pid)
        is_alive = is_running(pid)

    assert CANARY not in environment
    assert "refused" in root
    assert tracer == "0"
    assert is_unlimited
    if not any("signals" in gap for gap in finding(kind).gaps):
        assert is_alive


@pytest.mark.requirement("SBX-15")
async def test_no_privileges_are_left_or_gained(kind: Means, home: Path) -> None:
    async with started(home, confined(kind)) as trespasser:
        status = (await trespasser.facts())["status"]
        namespace = await trespasser("run", argv=["/usr/bin/unshare", "-Ur", "true"])
        keyring = await trespasser("keyring")
        switches = [await trespasser("opens", path=path) for path in OF_ROOT]

    assert all("refused" in one for one in switches)
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapAmb")} == {0}
    assert not namespace.startswith("0")
    assert keyring.startswith("refused")


@pytest.mark.requirement("UPS-24")
async def test_every_process_ends_with_the_session(kind: Means, home: Path) -> None:
    before = descendants()

    async with started(home, confined(kind)) as trespasser:
        for _ in range(3):
            await trespasser("daemon")
        left = descendants() - before
        assert len(left) >= 5  # the reaper, the server, its three
    await eventually(lambda: not any(map(is_running, left)))


def leaving(mark: Path) -> Path:
    """A library that makes a file as soon as it is loaded."""
    source, library = mark.with_suffix(".c"), mark.with_suffix(".so")
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("there is no C compiler")
    source.write_text(
        "#include <fcntl.h>\n__attribute__((constructor)) static void run(void)"
        f' {{ open("{mark}", O_CREAT | O_WRONLY, 0600); }}\n',
        "utf-8",
    )
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.mark.requirement("SBX-15")
async def test_variables_cannot_load_code_before_the_sandbox(kind: Means, home: Path) -> None:
    mark = home / "mark"
    library = leaving(mark)
    grants = {"read": (str(library),), "env": {"LD_PRELOAD": str(library)}}

    async with started(home, confined(kind, **grants)) as trespasser:
        await trespasser.facts()

    assert not mark.exists()


@pytest.mark.requirement("SBX-1")
async def test_a_grant_that_does_not_exist_is_named(kind: Means, home: Path) -> None:
    async with started(home, confined(kind, read=("~/gone",))) as trespasser:
        with pytest.raises(UnavailableError) as caught:
            await trespasser.facts()

    assert caught.value.code == "SERVER_NEEDS_CONFIG"
    assert str(home / "gone") in caught.value.detail


@pytest.mark.requirement("SBX-10")
async def test_the_data_folder_with_the_secrets_cannot_be_granted(kind: Means, home: Path) -> None:
    for grants in ({"read": ("..",)}, {"write": (str(data_of(home)),)}, {"read": ("/",)}):
        data_of(home).mkdir(exist_ok=True)
        async with started(home, confined(kind, **grants)) as trespasser:
            with pytest.raises(UnavailableError, match="holds the data folder"):
                await trespasser.facts()


@pytest.mark.requirement("SBX-20")
async def test_auto_takes_what_is_there(home: Path) -> None:
    expected = next((one.means for one in find_means(os.environ) if one.is_usable), None)
    if expected is None:
        pytest.skip("this system has no means")

    async with started(home, confined("auto")) as trespasser:
        await trespasser.facts()
        report = await report_of(trespasser.engine, "confined")

    assert report.stats is not None
    assert report.stats.sandbox.startswith(expected)


@pytest.mark.requirement("SBX-20")
async def test_a_means_that_is_named_and_missing_starts_nothing(home: Path, tmp_path: Path) -> None:
    servers = {"confined": confined("bubblewrap")}
    before = descendants()

    async with engine_at(home, servers, {"PATH": str(tmp_path)}) as engine:
        error = await outcome(engine, "confined", "facts")

    assert error.code == "SERVER_NEEDS_CONFIG"
    assert "install it: `apt install bubblewrap`" in error.hint
    assert descendants() == before


@pytest.mark.requirement("SBX-30")
async def test_docker_gets_the_options_that_confine(home: Path, tmp_path: Path) -> None:
    """A client without a daemon: what it is asked to do is what the container would be."""
    client, asked = tmp_path / "docker", tmp_path / "asked"
    client.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>{asked}\nexit 1\n', "utf-8")
    client.chmod(0o755)
    sandbox = {"kind": "auto", "read": ["~"], "memoryMib": 64}
    server = {"command": str(client), "args": ["run", "-i", "--rm", "image"], "sandbox": sandbox}
    privileged = {**server, "args": ["run", "--privileged", "image"]}

    async with started(home, server) as trespasser:
        with pytest.raises(UnavailableError, match="exited"):
            await trespasser.facts()
    words = asked.read_text("utf-8").splitlines()
    async with started(home, privileged) as trespasser:
        with pytest.raises(UnavailableError, match="lead out of the container") as caught:
            await trespasser.facts()

    assert {"--network=none", "--memory=64m", "--cap-drop=ALL"} <= set(words)
    assert f"--volume={home}:{home}:ro" in words
    assert words[-3:] == ["-i", "--rm", "image"]
    assert caught.value.detail == "--privileged"
    assert "--privileged" not in asked.read_text("utf-8")
