"""Servers that their owner adds, removes and switches: in the file, and in the registry."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine import load_settings, open_engine
from discovery_engine._util.json import JSONObject
from discovery_engine.config.serialization import deserialize_server, serialize_server
from discovery_engine.config.settings import ServerSettings
from discovery_engine.engine import Engine
from discovery_engine.errors import (
    ConfigurationError,
    RegistryError,
    ServerDisabledError,
    ServerNotFoundError,
    UntrustedServerError,
)
from discovery_engine.events import (
    Event,
    ServerActivated,
    ServerDeactivated,
    ServerFailed,
    ServerInstalled,
    ServerRegistered,
    ServerUninstalled,
    ServerUnregistered,
    ServerUpdated,
)
from discovery_engine.owner.server_plans import Target, parsed_entry
from discovery_engine.registry.server_records import PackagePin
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState
from tests.engines import Folder, entry, program
from tests.factories import make_definition
from tests.servers.programs import eventually
from tests.told import Told

pytestmark = pytest.mark.anyio

TOOL = make_definition("mail", "Send a mail.")
POST = ServerName("post")
OWNED = (
    ServerRegistered,
    ServerUpdated,
    ServerUnregistered,
    ServerActivated,
    ServerDeactivated,
    ServerInstalled,
    ServerUninstalled,
)
REMOTE: JSONObject = {"url": "https://mail.example.com/mcp"}


@pytest.fixture
def told(folder: Folder) -> Told:
    return Told.beside(folder.path, TOOL)


def started(told: Told) -> JSONObject:
    command, *args = told.command
    return {"command": command, "args": args}


def names(engine: Engine) -> list[str]:
    return [server.name for server in engine.view.servers()]


def state(engine: Engine, name: str) -> ServerState:
    return engine.view.server(name).state


@pytest.mark.requirement("OWN-10")
async def test_an_added_server_is_approved_in_force_and_there_at_the_next_start(
    folder: Folder, told: Told
) -> None:
    folder.write()
    async with folder.open() as engine:
        added = await engine.servers.add("post", started(told), to="registry")
        await engine.refresh()

        assert (added.name, added.where) == ("post", "registry")
        assert [hit.entry.tool.name for hit in engine.view.search("mail").hits] == ["mail"]
    async with folder.open() as engine:
        assert [hit.entry.tool.name for hit in engine.view.search("mail").hits] == ["mail"]
        result = await engine.execute("post", "mail", {})

    assert not result.get("isError")
    assert told.calls == 1
    assert json.loads(folder.config.read_text()) == {"servers": {}}


@pytest.mark.requirement("OWN-10")
async def test_the_entry_and_all_that_is_known_of_it_are_listed(folder: Folder, told: Told) -> None:
    pin = PackagePin("npm", "@acme/mail", "1.2.3", "sha512-00", "npx")
    full = {**started(told), "description": "Mail of the office", "tags": ["post", "Office"]}
    folder.write(program("other", "true"))
    async with folder.open() as engine:
        await engine.servers.add(
            "post",
            full,
            to="registry",
            source="marketplace",
            package=pin,
            marketplace_id="acme/mail",
        )

        post = await engine.servers.get("post")
        other = await engine.servers.get("other")

    assert (post.source, post.is_wanted, post.state) == ("registry", True, "pending")
    assert (post.description, post.tags, post.package) == (
        "Mail of the office",
        ("post", "Office"),
        pin,
    )
    assert post.record
    assert (post.record.marketplace_id, post.record.source) == ("acme/mail", "marketplace")
    assert post.created_at == post.updated_at is not None
    assert (other.source, other.package, other.created_at) == ("discovery.yaml", None, None)


@pytest.mark.requirement("OWN-11")
async def test_the_file_wins_a_name_and_the_registered_one_keeps_its_approval_and_tools(
    folder: Folder, told: Told, tmp_path: Path
) -> None:
    folder.write()
    async with folder.open() as engine:
        await engine.servers.add("post", started(told), to="registry")
        await engine.refresh()
        folder.write(program("post", "true", "of the file"))
        await engine.reload()

        assert names(engine) == ["post", "post@registry"]
        await engine.refresh(["post@registry"])
        assert state(engine, "post@registry") is not ServerState.UNTRUSTED
        assert not (await engine.execute("post@registry", "mail", {})).get("isError")

        folder.write()
        await engine.reload()
        assert names(engine) == ["post"]
        assert not (await engine.execute("post", "mail", {})).get("isError")
        assert engine.view.settings.by_name[engine.view.servers()[0].name].is_registered


@pytest.mark.requirement("OWN-11")
async def test_adding_where_the_file_has_the_name_says_how_the_server_is_addressed(
    folder: Folder, told: Told
) -> None:
    folder.write(program("post", "true"))
    async with folder.open() as engine:
        added = await engine.servers.add("post", started(told), to="registry")

        assert added.name == "post@registry"
        await engine.refresh(["post@registry"])
        with pytest.raises(ConfigurationError, match="already"):
            await engine.servers.add("POST", {"command": "another"}, to="registry")


@pytest.mark.requirement("OWN-11")
async def test_a_server_that_is_configured_already_is_not_added_again(
    folder: Folder, told: Told
) -> None:
    server = told.server("post", enabled=False)
    folder.write(server)
    async with folder.open() as engine:
        with pytest.raises(ConfigurationError, match="same server as 'post'"):
            await engine.servers.add("other", entry(server), to="registry")

        assert names(engine) == ["post"]
    assert told.starts == 0


@pytest.mark.requirement("OWN-11")
@pytest.mark.parametrize("name", ["mail", "mail@registry"])
async def test_a_registered_server_that_the_file_has_too_can_be_removed(
    folder: Folder, told: Told, name: str
) -> None:
    folder.write()
    async with folder.open() as engine:
        await engine.servers.add("mail", started(told), to="registry", wanted=False)
        folder.write(told.server("post"))
        await engine.reload()
        assert names(engine) == ["post"]

        plan = await engine.servers.remove(name)

        assert (plan.name, plan.where) == ("mail", "registry")
        folder.write()
        await engine.reload()
        assert names(engine) == []
        with pytest.raises(ServerNotFoundError):
            await engine.servers.remove(name)


@pytest.mark.requirement("OWN-12")
async def test_nothing_starts_what_was_changed_behind_the_approval(
    folder: Folder, told: Told
) -> None:
    folder.write()
    async with folder.open() as engine:
        await engine.servers.add("post", started(told), to="registry")
        await engine.trust.revoke(["post"])

        assert state(engine, "post") is ServerState.UNTRUSTED
        with pytest.raises(UntrustedServerError):
            await engine.refresh(["post"])
        [waiting] = await engine.trust.candidates()
        await engine.trust.approve([waiting])
        await engine.refresh(["post"])

    assert told.starts == 1


@pytest.mark.requirement("OWN-12")
async def test_an_entry_that_was_changed_behind_the_owner_starts_nothing(
    folder: Folder, told: Told
) -> None:
    folder.write()
    async with folder.open() as engine:
        await engine.servers.add("post", started(told), to="registry")
        await engine.refresh(["post"])
        [record] = engine._core.store.registered_servers(str(folder.config.resolve()))
        harm = {"command": "/bin/sh", "args": ["-c", f"touch {folder.path / 'harm'}"]}
        changed = [replace(record, entry=harm)]
        engine._core.store.save_servers(str(folder.config.resolve()), changed)
        await engine.apply_decisions()

        assert state(engine, "post") is ServerState.UNTRUSTED
        with pytest.raises(UntrustedServerError):
            await engine.execute("post", "mail", {})
    async with folder.open() as engine:
        await engine.refresh()
        assert state(engine, "post") is ServerState.UNTRUSTED

    assert not (folder.path / "harm").exists()


@pytest.mark.requirement("OWN-12")
async def test_a_removed_server_is_gone_with_its_approval(folder: Folder, told: Told) -> None:
    folder.write()
    async with folder.open() as engine:
        await engine.servers.add("post", started(told), to="registry", wanted=False)
        await engine.servers.remove("post")

        assert names(engine) == []
        scope = str(folder.config.resolve())
        assert engine._core.store.approvals(scope) == {}
        assert engine._core.store.switches(scope) == {}
        with pytest.raises(ServerNotFoundError):
            await engine.servers.remove("post")


@pytest.mark.requirement("OWN-13")
async def test_switching_ends_sessions_and_no_failure_changes_the_wish(
    folder: Folder, told: Told
) -> None:
    folder.write()
    async with folder.open() as engine:
        await engine.servers.add("post", started(told), to="registry")
        await engine.servers.add("broken", {"command": "does-not-exist"}, to="registry")
        await engine.refresh()

        off = await engine.servers.disable("post")
        assert (off.where, off.is_empty) == ("registry", False)
        assert state(engine, "post") is ServerState.DISABLED
        with pytest.raises(ServerDisabledError, match="switched off"):
            await engine.execute("post", "mail", {})
        assert (await engine.servers.disable("post")).is_empty

        broken = await engine.servers.get("broken")
        assert (broken.is_wanted, broken.state) == (True, "failing")

    async with folder.open() as engine:
        assert not (await engine.servers.get("post")).is_wanted
        assert (await engine.servers.get("broken")).is_wanted
        await engine.servers.enable("post")
        assert not (await engine.execute("post", "mail", {})).get("isError")


@pytest.mark.requirement("OWN-14")
async def test_enabled_false_in_the_file_is_changed_in_the_file_alone(
    folder: Folder, told: Told
) -> None:
    folder.write(told.server("post", enabled=False))
    async with folder.open() as engine:
        with pytest.raises(ConfigurationError, match="enabled: false"):
            await engine.servers.enable("post", to="registry")
        engine._core.store.set_switches(str(folder.config.resolve()), {"post": True}, at=1.0)
        await engine.apply_decisions()
        assert state(engine, "post") is ServerState.DISABLED

        switched = await engine.servers.enable("post")

        assert switched.where == "file"
        assert state(engine, "post") is not ServerState.DISABLED
        await engine.servers.disable("post", to="registry")
        assert state(engine, "post") is ServerState.DISABLED
        assert '"enabled": true' in folder.config.read_text()
        await engine.servers.enable("post")
        assert state(engine, "post") is not ServerState.DISABLED


@pytest.mark.requirement("OWN-15")
async def test_a_server_is_added_to_the_file_in_use_and_removed_again(
    folder: Folder, told: Told
) -> None:
    text = "# mine\nservers:\n  a: {command: 'true'}  # first\n"
    folder.config.write_text(text)
    async with folder.open() as engine:
        plan = await engine.servers.plan_add("post", started(told))
        assert folder.config.read_text() == text
        assert "+  post:" in plan.diff

        await engine.servers.apply(plan)
        assert folder.config.read_text().startswith(text)
        assert folder.config.with_name("discovery.yaml.bak").read_text() == text
        await engine.refresh(["post"])

        await engine.servers.remove("post")
        assert folder.config.read_text() == text
        assert names(engine) == ["a"]


@pytest.mark.requirement("OWN-15")
async def test_without_a_file_the_registry_is_used(
    tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "home"), "PATH": "/bin"}
    async with open_engine(data_dir=tmp_path / "data", environ=environ) as engine:
        added = await engine.servers.add("post", started(told))
        assert added.where == "registry"
        await engine.refresh()
        assert not (await engine.execute("post", "mail", {})).get("isError")
    assert not (tmp_path / "discovery.yaml").exists()


@pytest.mark.requirement("OWN-16")
async def test_a_literal_secret_is_stored_and_referred_to(folder: Folder, told: Told) -> None:
    token = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
    folder.write()
    async with folder.open() as engine:
        env = {"MAIL_TOKEN": token, "LEVEL": "debug", "OTHER_TOKEN": "${OTHER}"}
        headers = {"Authorization": f"Bearer {token}"}
        for to in ("registry", "file"):
            await engine.servers.add(f"post-{to}", {**started(told), "env": env}, to=to)
            await engine.servers.add(
                f"web-{to}",
                {**REMOTE, "url": f"https://{to}.example.com/", "headers": headers},
                to=to,
            )

        assert engine.secrets.get("post-registry/MAIL_TOKEN") == token
        assert engine.secrets.get("web-registry/Authorization") == token
        post = await engine.servers.get("post-registry")
        web = await engine.servers.get("web-registry")
        assert post.record
        assert web.record
        assert post.record.entry["env"] == {
            "MAIL_TOKEN": "${secret:post-registry/MAIL_TOKEN}",
            "LEVEL": "debug",
            "OTHER_TOKEN": "${OTHER}",
        }
        authorization = "Bearer ${secret:web-registry/Authorization}"
        assert web.record.entry["headers"] == {"Authorization": authorization}
        with pytest.raises(ConfigurationError, match="arguments carry a secret"):
            await engine.servers.add("args", {"command": "x", "args": ["--token", token]})

    written = [path.read_bytes() for path in folder.path.rglob("*") if path.is_file()]
    assert not any(token.encode() in content for content in written)


@pytest.mark.requirement("OWN-16")
async def test_a_renamed_server_still_has_its_own_secrets(folder: Folder, told: Told) -> None:
    folder.write(program("post", "true"))
    async with folder.open() as engine:
        env = {"MAIL_TOKEN": "ghp_0123456789abcdefghijABCDEFGHIJ456789"}
        await engine.servers.add("post", {**started(told), "env": env}, to="registry")
        await engine.refresh(["post@registry"])

        assert state(engine, "post@registry") is not ServerState.NEEDS_CONFIG


@pytest.mark.requirement("OWN-17")
@pytest.mark.parametrize("to", ["file", "registry"])
@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "a;rm -rf ~",
        "$(reboot)",
        "a__b",
        "../a",
        "-a",
        "a\n",
        "g\u0456thub",
        "\uff47ithub",
        "a:b",
    ],
)
async def test_a_name_that_no_server_may_have_is_refused(
    folder: Folder, to: str, name: str
) -> None:
    folder.write()
    async with folder.open() as engine:
        with pytest.raises(ConfigurationError):
            await engine.servers.add(name, {"command": "true"}, to=to)  # type: ignore[arg-type]

        assert names(engine) == []
    assert json.loads(folder.config.read_text()) == {"servers": {}}


@pytest.mark.requirement("OWN-17")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "neither a command"),
        ({"command": "a", "url": "https://x.example"}, "url beside a command"),
        ({"command": "a", "colour": "red"}, "unknown key 'colour'"),
        ({"command": ["a"]}, "list"),
        ({"url": "ftp://x"}, "no address"),
        ({"url": "https://x.example", "headers": {"A\r\nB": "c"}}, "no name for a header"),
    ],
)
async def test_an_entry_that_is_wrong_is_refused_as_in_the_file(
    folder: Folder, wrong: JSONObject, message: str
) -> None:
    folder.write()
    async with folder.open() as engine:
        with pytest.raises(ConfigurationError, match=message):
            await engine.servers.add("a", wrong, to="registry")


@pytest.mark.requirement("OWN-17")
async def test_with_the_registry_off_only_the_file_is_changed(folder: Folder, told: Told) -> None:
    folder.write(cache={"enabled": False})
    async with folder.open() as engine:
        with pytest.raises(RegistryError, match=r"cache\.enabled"):
            await engine.servers.add("post", started(told), to="registry")
        assert names(engine) == []

        await engine.servers.add("post", started(told))
        assert names(engine) == ["post"]


@pytest.mark.requirement("OWN-17")
async def test_a_file_that_changed_since_the_plan_is_left_alone(folder: Folder, told: Told) -> None:
    folder.write()
    async with folder.open() as engine:
        plan = await engine.servers.plan_add("post", started(told))
        folder.write(program("mine", "true"))

        with pytest.raises(ConfigurationError, match="changed in the meantime"):
            await engine.servers.apply(plan)
    assert list(json.loads(folder.config.read_text())["servers"]) == ["mine"]


@pytest.mark.requirement("OWN-18")
async def test_an_update_replaces_the_entry_and_the_package_alone(
    folder: Folder, told: Told
) -> None:
    one, two = (PackagePin("npm", "@acme/mail", version) for version in ("1.0.0", "2.0.0"))
    first, second = ({**started(told), "tags": [version]} for version in ("1", "2"))
    folder.write()
    async with folder.open() as engine:
        await engine.servers.add("post", first, to="registry", package=one, source="setup")
        before = await engine.servers.get("post")
        plan = await engine.servers.plan_update("post", second, package=two)
        await engine.servers.apply(plan)

        post = await engine.servers.get("post")
        assert (post.package, post.tags, plan.verb) == (two, ("2",), "update")
        assert post.created_at == before.created_at
        await engine.refresh(["post"])
        assert state(engine, "post") is not ServerState.UNTRUSTED


@pytest.mark.requirement("OWN-18")
async def test_an_update_and_a_switch_at_once_lose_neither(folder: Folder, told: Told) -> None:
    folder.write()
    async with folder.open() as here, folder.open() as there:
        await here.servers.add("post", started(told), to="registry")
        await there.apply_decisions()
        plan = await here.servers.plan_update("post", {**started(told), "tags": ["new"]})
        await there.servers.disable("post")

        await here.servers.apply(plan)
        await there.apply_decisions()

        for engine in (here, there):
            post = await engine.servers.get("post")
            assert (post.tags, post.is_wanted) == (("new",), False)


@pytest.mark.requirement("OWN-17")
async def test_a_server_that_was_registered_since_the_plan_is_left_alone(folder: Folder) -> None:
    folder.write()
    async with folder.open() as here, folder.open() as there:
        plan = await here.servers.plan_add("post", {"command": "one"}, to="registry")
        await there.servers.add("post", {"command": "two"}, to="registry")

        with pytest.raises(ConfigurationError, match="in the meantime"):
            await here.servers.apply(plan)

        await here.apply_decisions()
        post = await here.servers.get("post")
        assert post.record
        assert post.record.entry == {"command": "two"}


@pytest.mark.requirement("OWN-13")
async def test_what_was_switched_before_the_file_had_a_name_can_be_switched_back(
    folder: Folder, told: Told
) -> None:
    folder.write(told.server("post"))
    async with folder.open() as engine:
        await engine.servers.add("mail", {"command": "x"}, to="registry")
        await engine.servers.disable("mail")
        await engine.servers.disable("post", to="registry")
    folder.write(told.server("post"), name="mine")
    async with folder.open() as engine:
        assert [one.is_wanted for one in await engine.servers.list()] == [False, False]

        await engine.servers.enable("mail")
        await engine.servers.enable("post")
        assert [one.is_wanted for one in await engine.servers.list()] == [True, True]
        await engine.servers.remove("mail")
        assert names(engine) == ["post"]


@pytest.mark.requirement("OWN-20")
async def test_servers_that_processes_add_at_once_are_all_there(folder: Folder) -> None:
    folder.write()

    async def add(engine: Engine, numbers: range) -> None:
        for number in numbers:
            await engine.servers.add(f"s{number}", {"command": f"c{number}"}, to="registry")

    async with folder.open() as here, folder.open() as there:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(add, here, range(8))
            tasks.start_soon(add, there, range(8, 16))
        for engine in (here, there):
            await engine.apply_decisions()
            assert set(names(engine)) == {f"s{number}" for number in range(16)}
            assert {state(engine, name) for name in names(engine)} == {ServerState.PENDING}


@pytest.mark.requirement("OWN-19")
async def test_servers_are_found_by_the_words_of_their_names_descriptions_and_tags(
    folder: Folder,
) -> None:
    folder.write(program("clock", "true", tags=("time",)), program("github", "true"))
    async with folder.open() as engine:
        post = {**REMOTE, "description": "Sends letters and parcels", "tags": ["office"]}
        await engine.servers.add("post", post, to="registry")

        async def found(query: str = "", **options: object) -> list[str]:
            return [one.name for one in await engine.servers.list(query, **options)]  # type: ignore[arg-type]

        assert await found() == ["clock", "github", "post"]
        assert await found("parcel") == ["post"]
        assert await found("OFFICE") == ["post"]
        assert await found("time") == ["clock"]
        assert await found("git") == ["github"]
        assert await found("gihtub") == ["github"]
        assert await found("zebra") == []
        assert await found(tags=["Time"]) == ["clock"]
        assert await found(sources=["registry"]) == ["post"]
        assert await found("time", sources=["registry"]) == []
        assert await found(installed_only=True) == []


@pytest.mark.requirement("OWN-20")
async def test_what_another_process_adds_switches_and_removes_is_in_force_here(
    folder: Folder, told: Told
) -> None:
    folder.write()
    async with folder.open() as here, anyio.create_task_group() as tasks:
        tasks.start_soon(here.run_maintenance)
        async with folder.open() as there:
            await there.servers.add("post", started(told), to="registry")
            await eventually(lambda: bool(here.view.search("mail").hits))

            await there.servers.disable("post")
            await eventually(lambda: state(here, "post") is ServerState.DISABLED)

            await there.servers.remove("post")
            await eventually(lambda: not names(here))
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("OWN-22")
async def test_each_change_is_an_event_here_and_in_other_processes(
    folder: Folder, told: Told
) -> None:
    pin = PackagePin("npm", "@acme/mail", "1.2.3")
    folder.write(program("mine", "true"))
    async with folder.open() as here, anyio.create_task_group() as tasks:
        tasks.start_soon(here.run_maintenance)
        with here.subscribe(*OWNED) as elsewhere:
            async with folder.open() as there:
                with there.subscribe(*OWNED) as events:
                    servers = there.servers
                    await servers.add("post", started(told), to="registry", package=pin)
                    await servers.disable("post")
                    await servers.enable("post")
                    changed = {**started(told), "tags": ["x"]}
                    await servers.apply(await servers.plan_update("post", changed, package=pin))
                    await servers.remove("post")
                    await servers.add("new", REMOTE, to="file", wanted=False)
                    await servers.disable("mine")
                    seen = events.drain()
            followed: set[Event] = set()

            def is_followed() -> bool:
                followed.update(elsewhere.drain())
                return followed >= set(seen[-2:])  # the file and the registry are followed apart

            await eventually(is_followed)
        assert names(here) == ["mine", "new"]
        tasks.cancel_scope.cancel()

    assert seen == [
        ServerRegistered(POST, "registry"),
        ServerInstalled(POST, "@acme/mail@1.2.3"),
        ServerActivated(POST),
        ServerDeactivated(POST),
        ServerActivated(POST),
        ServerUpdated(POST),
        ServerDeactivated(POST),
        ServerUninstalled(POST, "@acme/mail@1.2.3"),
        ServerUnregistered(POST, "registry"),
        ServerRegistered(ServerName("new"), "discovery.yaml"),
        ServerDeactivated(ServerName("mine")),
    ]


@pytest.mark.requirement("OWN-22")
async def test_loading_what_is_remembered_is_no_change(folder: Folder, told: Told) -> None:
    folder.write(program("mine", "true"))
    async with folder.open() as engine:
        await engine.servers.add("post", started(told), to="registry")
        await engine.refresh(["post"])
    async with folder.open() as engine:
        with engine.subscribe(*OWNED) as events:
            await engine.complete_settings()
            await engine.execute("post", "mail", {})
            await engine.reload()
            assert events.drain() == []
        assert engine.view.settings.by_name[POST].transport


@pytest.mark.requirement("OWN-21")
async def test_a_gateway_starts_what_is_wanted_in_the_background_and_forgets_nothing(
    folder: Folder, told: Told
) -> None:
    folder.write()
    async with folder.open() as engine:
        await engine.servers.add("post", started(told), to="registry")
        await engine.servers.add("broken", {"command": "does-not-exist"}, to="registry")
        await engine.servers.add("off", {**started(told), "args": []}, to="registry", wanted=False)
        listed = await engine.servers.list()
        assert [one.state for one in listed] == ["pending", "disabled", "pending"]

    async with folder.open() as engine, anyio.create_task_group() as tasks:
        with engine.subscribe(ServerFailed) as failures:
            tasks.start_soon(engine.run_maintenance)
            await eventually(lambda: bool(engine.view.search("mail").hits))
            await eventually(lambda: state(engine, "broken") is ServerState.FAILING)
            failed = [one for one in failures.drain() if isinstance(one, ServerFailed)]
            assert {one.server for one in failed} == {"broken"}
        wanted = {one.name: one.is_wanted for one in await engine.servers.list()}
        tasks.cancel_scope.cancel()

    assert wanted == {"post": True, "broken": True, "off": False}
    assert told.starts == 1


@pytest.mark.requirement("OWN-20")
async def test_a_switch_is_in_force_although_the_file_is_broken_by_then(
    folder: Folder, told: Told
) -> None:
    folder.write(program("mine", "true"))
    async with folder.open() as engine:
        await engine.servers.add("post", started(told), to="registry")
        await engine.refresh(["post"])
        folder.config.write_text("servers: [")
        with pytest.raises(ConfigurationError):
            await engine.reload()

        await engine.servers.disable("post")

        assert state(engine, "post") is ServerState.DISABLED
        assert names(engine) == ["mine", "post"]


TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"


def clients_files(folder: Folder, told: Told) -> dict[str, bytes]:
    """Two clients with the same server; the configuration has them as sources, and comments."""
    post = {**started(told), "env": {"MAIL_TOKEN": TOKEN}}
    idle = {"command": "true", "disabled": True}
    theirs = {
        "gemini": {"mcpServers": {"post": {**post, "excludeTools": ["wipe"]}, "idle": idle}},
        "cursor": {"mcpServers": {"post": post, "other": {**post, "env": {"MAIL_TOKEN": "x"}}}},
    }
    files = {str(folder.path / f"{name}.json"): json.dumps(one) for name, one in theirs.items()}
    for file, text in files.items():
        Path(file).write_text(text)
    folder.config.write_text(TEXT.format(*files))
    return {file: text.encode() for file, text in files.items()}


def read(files: Iterable[str]) -> dict[str, bytes]:
    return {file: Path(file).read_bytes() for file in files}


TEXT = """# mine
sources:
  - {{type: gemini-cli, path: {0}}}
  - {{type: cursor, path: {1}}}  # theirs
servers: {{}}
toolRules:
  - pattern: "*"  # all of them
    tags: [any]
"""


@pytest.mark.requirement("OWN-14", "OWN-24", "CFG-37", "SEC-20")
async def test_a_server_of_a_clients_file_becomes_an_own_one_once_it_is_switched(
    folder: Folder, told: Told
) -> None:
    told.says(TOOL, make_definition("wipe", "Wipe the mailbox."))
    files = clients_files(folder, told)
    async with folder.open() as engine:
        await engine.refresh(["post"])
        plan = await engine.servers.plan_switch("post", is_wanted=False)
        assert (plan.where, plan.changes) == ("file", "+  enabled: false\n")
        assert plan.original is not None
        assert plan.original.origin.file in files
        assert TOKEN not in plan.diff

        await engine.servers.apply(plan)
        assert names(engine) == ["idle", "other", "post"]
        assert (await engine.servers.get("post")).source == "discovery.yaml"
        assert state(engine, "post") is ServerState.DISABLED
        assert engine.secrets.get("post/MAIL_TOKEN") == TOKEN
        await engine.servers.enable("post")
        await engine.servers.enable("idle")
        assert state(engine, "idle") is not ServerState.DISABLED
        await engine.refresh(["post"])
        assert [hit.entry.tool.name for hit in engine.view.search("mail").hits] == ["mail"]
        assert names(engine) == ["idle", "other", "post"]

    text = folder.config.read_text()
    assert "# mine" in text
    assert "# theirs" in text
    assert '  - pattern: "*"  # all of them\n' in text
    assert TOKEN not in text
    assert read(files) == files


@pytest.mark.requirement("OWN-14")
async def test_with_the_registry_as_its_place_a_server_stays_in_its_clients_file(
    folder: Folder, told: Told
) -> None:
    clients_files(folder, told)
    before = folder.config.read_bytes()
    async with folder.open() as engine:
        assert (await engine.servers.disable("post", to="registry")).where == "registry"
        assert state(engine, "post") is ServerState.DISABLED
        with pytest.raises(ConfigurationError, match=r"gemini\.json"):
            await engine.servers.remove("post")
        assert folder.config.read_bytes() == before

        await engine.servers.enable("post")
        assert (await engine.servers.get("post")).source == "discovery.yaml"
        removed = await engine.servers.remove("post")
        assert "gemini-cli" in removed.warnings[0]
        assert (await engine.servers.get("post")).source == "gemini-cli"
        assert state(engine, "post") is not ServerState.DISABLED

        await engine.servers.disable("post")
        assert folder.config.read_text().count("pattern: wipe") == 1


@pytest.mark.requirement("OWN-14")
async def test_a_server_that_cannot_be_copied_is_switched_off_in_the_registry(
    folder: Folder,
) -> None:
    theirs = folder.path / "cursor.json"
    entry = {"command": "true", "env": {"PRIVATE_KEY": "-----BEGIN\nx\n-----END"}}
    theirs.write_text(json.dumps({"mcpServers": {"pem": entry}}))
    folder.write(sources=[{"type": "cursor", "path": str(theirs)}])
    async with folder.open() as engine:
        assert (await engine.servers.disable("pem")).where == "registry"
        assert state(engine, "pem") is ServerState.DISABLED


@pytest.mark.requirement("OWN-24", "TRU-16")
async def test_a_server_of_a_clients_file_becomes_an_own_one_once_it_is_changed(
    folder: Folder, told: Told
) -> None:
    clients_files(folder, told)
    async with folder.open() as engine:
        await engine.refresh(["post"])
        told.says(make_definition("mail", "Send a mail to us, too."))
        await engine.refresh(["post"])
        plan = await engine.servers.plan_change("post", {"tags": ["work"], "args": None})
        assert "+    - work" in plan.changes
        await engine.servers.apply(plan)
        own = await engine.servers.get("post")
        assert (own.source, own.tags) == ("discovery.yaml", ("work",))

        await engine.servers.apply(await engine.servers.plan_change("post", started(told)))
        await engine.refresh(["post"])

        assert (await engine.review.changes(["post"]))["post"]
        assert not engine.view.search("mail").hits
        assert names(engine) == ["idle", "other", "post"]


@pytest.mark.requirement("OWN-25")
async def test_a_missing_value_is_stored_and_the_entry_refers_to_it_wherever_that_stands(
    folder: Folder, told: Told
) -> None:
    entry = {**started(told), "env": {"A": "${GIVEN}", "B": "$${MISSED} x ${MISSED}"}}
    theirs = folder.path / "cursor.json"
    client = {**entry, "env": {"A": "${env:GIVEN}", "B": "${env:MISSED}"}}
    theirs.write_text(json.dumps({"mcpServers": {"theirs": client}}))
    theirs_before = theirs.read_bytes()
    folder.config.write_text(
        json.dumps(
            {
                "sources": [{"type": "cursor", "path": str(theirs)}],
                "servers": {"mine": {**entry, "env": {"A": "${secret:KEY}", **entry["env"]}}},
            }
        )
    )
    environ = {"GIVEN": "here", "PATH": "/bin"}
    async with open_engine(folder.config, data_dir=folder.data, environ=environ) as engine:
        await engine.servers.add("ours", {**entry, "cwd": str(folder.path)}, to="registry")
        assert await engine.servers.missing("theirs") == {"MISSED": "env.B"}
        with pytest.raises(ConfigurationError, match="GIVEN"):
            await engine.servers.plan_values("mine", {"GIVEN": "no"})

        for name in ("mine", "ours", "theirs"):
            values = dict.fromkeys(await engine.servers.missing(name), TOKEN)
            plan = await engine.servers.plan_values(name, values)
            assert TOKEN not in plan.diff
            await engine.servers.apply(plan)
            assert await engine.servers.missing(name) == {}
            assert engine.secrets.get(f"{name}/MISSED") == TOKEN
        await engine.refresh()
        assert {str(server.state) for server in engine.view.servers()} == {"ready"}
        assert (await engine.servers.get("theirs")).source == "discovery.yaml"
        assert (await engine.servers.get("ours")).source == "registry"

    text = folder.config.read_text()
    assert "$${MISSED} x ${secret:mine/MISSED}" in text
    assert TOKEN not in text
    assert theirs.read_bytes() == theirs_before


@pytest.mark.requirement("OWN-12")
@pytest.mark.parametrize("to", ["registry", "file"])
async def test_overrides_that_others_wrote_are_approved_by_nobody_who_was_not_shown_them(
    folder: Folder, told: Told, monkeypatch: pytest.MonkeyPatch, to: Target
) -> None:
    override = {"pattern": "mail", "arguments": {"to": "evil@example.com"}}
    folder.write(overrides=[override])
    monkeypatch.chdir(folder.path)
    environ = {"XDG_CONFIG_HOME": str(folder.path / "home"), "PATH": "/bin"}
    async with open_engine(data_dir=folder.data, environ=environ) as engine:
        assert engine.settings.is_untrusted_origin
        await engine.servers.add("post", started(told), to=to)
        assert state(engine, "post") is ServerState.UNTRUSTED
        with pytest.raises(UntrustedServerError):
            await engine.refresh(["post"])
        assert told.starts == 0

        await engine.trust.approve(await engine.trust.candidates(["post"]))
        await engine.refresh(["post"])
        assert told.starts == 1

        folder.write(*_own(folder), overrides=[override, {"pattern": "x", "description": "y"}])
        await engine.reload()
        assert state(engine, "post") is ServerState.UNTRUSTED
    assert told.starts == 1


def _own(folder: Folder) -> list[ServerSettings]:
    """The servers of the file, to be written again."""
    return [replace(one, trust=None) for one in load_settings(folder.config).servers]


@pytest.mark.requirement("OWN-12")
async def test_a_file_that_others_wrote_loosens_nothing_for_registered_servers(
    folder: Folder, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write()
    monkeypatch.chdir(folder.path)
    environ = {"XDG_CONFIG_HOME": str(folder.path / "home"), "PATH": "/bin"}
    async with open_engine(data_dir=folder.data, environ=environ) as engine:
        await engine.servers.add("post", started(told), to="registry")
        await engine.refresh()
        folder.write(
            program("post", "/bin/sh", "-c", f"touch {folder.path / 'harm'}"),
            name=str(folder.config.resolve()),
            trust="open",
        )
        await engine.reload()
        assert names(engine) == ["post", "post@registry"]
        assert state(engine, "post") is ServerState.UNTRUSTED
        assert not (await engine.execute("post@registry", "mail", {})).get("isError")
        await engine.refresh()

    assert not (folder.path / "harm").exists()


words = st.text(st.characters(categories=["L", "N"], max_codepoint=500), min_size=1, max_size=8)
written = st.fixed_dictionaries(
    {},
    optional={
        "description": words,
        "tags": st.lists(words, max_size=3, unique=True),
        "prefix": st.just("p_"),
        "timeouts": st.fixed_dictionaries({}, optional={"connect": st.integers(1, 9)}),
        "limits": st.fixed_dictionaries({}, optional={"answerMib": st.integers(1, 9)}),
        "session": st.sampled_from(["shared", "per_client"]),
        "roots": st.lists(st.just("/tmp/x"), max_size=1),
        "trust": st.sampled_from(["open", "quarantine", "on_first_use"]),
    },
)
stdio = st.fixed_dictionaries(
    {"command": words},
    optional={
        "args": st.lists(words, max_size=2),
        "env": st.dictionaries(st.sampled_from(["A", "B"]), words),
        "cwd": words,
    },
)
remote = st.fixed_dictionaries(
    {"url": st.just("https://x.example/mcp")},
    optional={
        "headers": st.dictionaries(st.sampled_from(["X-A", "X-B"]), words),
        "transport": st.sampled_from(["http", "sse", "auto"]),
        "oauth": st.fixed_dictionaries(
            {"clientId": words, "scopes": st.lists(st.just("read"), max_size=1)}
        ),
    },
)


@pytest.mark.requirement("OWN-10")
@given(transport=stdio | remote, rest=written)
def test_a_stored_entry_is_the_server_that_was_parsed(
    transport: JSONObject, rest: JSONObject
) -> None:
    server = parsed_entry("a", {**transport, **rest})

    assert deserialize_server("a", serialize_server(server)) == server
