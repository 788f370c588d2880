"""A gateway whose role of the database is restricted: its catalog is what is published for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from discovery_engine._util.tasks import open_task_group
from discovery_engine.engine import Engine
from discovery_engine.errors import RegistryError, ToolNotFoundError
from discovery_engine.json_forms.notice_form import notice_forms
from discovery_engine.registry.backends import open_database
from discovery_engine.runtime.refresh_worker import WorkerOptions
from tests.attacks.reserved_rows import OTHER_TEAM, OWN_TEAM, ReservedRows
from tests.engines import Folder
from tests.factories import make_definition
from tests.postgres import PostgresServer
from tests.servers.offerings import World, prompt, resource
from tests.servers.programs import eventually, text_of

pytestmark = pytest.mark.anyio

CANARY = "kanarie"
SCOPE = "name:company"
WORDS = "pay the salary of an employee"
RULES: dict[str, Any] = {
    "toolRules": [{"pattern": "pay_*", "visibleTo": OWN_TEAM}],
    "resourceRules": [{"pattern": "*salaries*", "visibleTo": OWN_TEAM}],
    "promptRules": [{"pattern": "dismiss*", "visibleTo": OWN_TEAM}],
}


class Company:
    """An owner's gateway, and teams with gateways of their own."""

    def __init__(self, path: Path, rows: ReservedRows) -> None:
        self.rows = rows
        self.owner = Folder(path / "owner")
        self.team = Folder(path / "team")
        for folder in (self.owner, self.team):
            folder.data.mkdir(parents=True)
        self.docs = World(path / "docs.json", "docs").offer(
            tools=[
                make_definition("read_page", "Read one page of the handbook."),
                make_definition(f"pay_{CANARY}", f"Pay the salary of an employee {CANARY}."),
            ],
            resources=[resource("file:///handbook"), resource(f"file:///salaries-{CANARY}")],
            prompts=[prompt("summary", "page"), prompt(f"dismiss-{CANARY}", "employee")],
        )
        self.payroll = World(path / "payroll.json", "payroll").offer(
            tools=[make_definition("transfer", f"Transfer a salary {CANARY}.")],
        )
        self.write(self.owner, **RULES)
        self.reserve(OWN_TEAM)
        # The file of a team names the same servers, and reserves nothing: no gateway hides a tool.
        self.write(self.team, read_only=True)

    def write(self, folder: Folder, *, read_only: bool = False, **sections: Any) -> None:
        registry = {"url": "${DATABASE_URL}", "timeout": 60, "readOnly": read_only}
        servers = self.docs.server(), self.payroll.server()
        folder.write(*servers, name="company", registry=registry, **sections)

    def reserve(self, *principals: str) -> None:
        """Reserve the server `payroll`; for all without any."""
        content = json.loads(self.owner.config.read_text("utf-8"))
        content["servers"]["payroll"].pop("visibleTo", None)
        if principals:
            content["servers"]["payroll"]["visibleTo"] = list(principals)
        self.owner.config.write_text(json.dumps(content), "utf-8")

    @asynccontextmanager
    async def open(self, folder: Folder, url: str) -> AsyncIterator[Engine]:
        async with folder.open(environ={"DATABASE_URL": url}) as engine:
            yield engine


@pytest.fixture
def company(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Company]:
    url = postgres_server.create_database()
    owner = open_database(url, timeout=60.0)
    yield Company(tmp_path, ReservedRows(postgres_server, url, owner))
    owner.close()


async def listed(company: Company) -> None:
    async with company.open(company.owner, company.rows.url) as owner:
        await owner.refresh()


def shown(engine: Engine) -> set[str]:
    return {str(entry.key) for entry in engine.view.catalog}


async def answers(engine: Engine) -> str:
    """All that a client could be shown, in one text."""
    catalog = engine.view.catalog
    found = [await engine.search(words) for words in (WORDS, "transfer", "read page")]
    parts = [catalog.part(name) for name in catalog.parts]
    return f"{found} {parts} {len(catalog)} {engine.view.servers()}"


@pytest.mark.requirement("SCP-22", "SCP-28")
async def test_without_the_filter_of_the_gateway_a_team_is_shown_nothing_reserved(
    company: Company,
) -> None:
    await listed(company)
    other, own = company.rows.role(OTHER_TEAM), company.rows.role(OWN_TEAM)
    async with company.open(company.team, other.url) as team:
        first = await answers(team)
        report = await team.refresh()
        text, tools = first + await answers(team), shown(team)
        others = [entry.offering.identifier for entry in team.view.catalog.part("docs").offerings]
        with pytest.raises(ToolNotFoundError):
            await team.execute("docs", f"pay_{CANARY}", {})
        called = await team.execute("docs", "read_page", {})
    company.team.config.touch()
    async with company.open(company.team, own.url) as team:
        whole = shown(team)

    assert CANARY not in text
    assert tools == {"docs:read_page"}
    assert sorted(others) == ["file:///handbook", "summary"]
    assert "nothing is published" in str(report)
    assert text_of(called)
    assert whole == {"docs:read_page", f"docs:pay_{CANARY}", "payroll:transfer"}


@pytest.mark.requirement("SCP-22", "SCP-28")
async def test_both_walls_show_and_answer_the_same(company: Company) -> None:
    role = company.rows.role(OTHER_TEAM)
    async with (
        company.open(company.owner, company.rows.url) as owner,
        company.open(company.team, role.url) as team,
    ):
        await owner.refresh()
        await team.refresh()
        filtered = owner.visible_to(OTHER_TEAM)
        found = []
        for engine in (filtered, team):
            answers = [await engine.search(words) for words in (WORDS, "transfer", "read a page")]
            hits = [[(hit.entry.key, hit.relevance) for hit in answer.hits] for answer in answers]
            found.append((hits, [answer.confidence for answer in answers]))
        names = [{str(e.key) for e in engine.view.catalog} for engine in (filtered, team)]

    assert found[0] == found[1]
    assert names[0] == names[1] == {"docs:read_page"}


@pytest.mark.requirement("SCP-25", "SCP-28")
async def test_a_running_gateway_follows_what_its_owner_reserves(company: Company) -> None:
    role = company.rows.role(OTHER_TEAM)
    moments = []
    async with (
        company.open(company.owner, company.rows.url) as owner,
        company.open(company.team, role.url) as team,
        open_task_group() as tasks,
    ):
        tasks.start_soon(team.run_maintenance)
        await owner.refresh()
        await eventually(lambda: "docs:read_page" in shown(team))
        company.payroll.offer(tools=[])  # it is not listed again: what is stored is published
        for principals in ((), (OWN_TEAM,), (OTHER_TEAM,)):
            company.reserve(*principals)
            await owner.reload()
            is_free = principals != (OWN_TEAM,)
            await eventually(lambda free=is_free: ("payroll:transfer" in shown(team)) is free)  # type: ignore[misc]
            moments.append(is_free)
        company.rows.owner.roles.revoke(role.name, SCOPE)
        await eventually(lambda: not shown(team))
        company.rows.owner.roles.grant(role.name, SCOPE, ())
        # Sooner than the minute after which a database that failed is looked at anyway.
        await eventually(lambda: shown(team) == {"docs:read_page"}, within=30)
        tasks.cancel_scope.cancel()

    assert moments == [True, False, True]


@pytest.mark.requirement("SCP-28")
async def test_without_the_database_a_team_has_what_it_last_saw(
    company: Company, caplog: pytest.LogCaptureFixture
) -> None:
    await listed(company)
    role = company.rows.role(OWN_TEAM)
    async with company.open(company.team, role.url) as team:
        seen = shown(team)
    address, name = role.url.rsplit("/", 1)
    gone = f"{address.rpartition(':')[0]}:1/{name}"
    async with company.open(company.team, gone) as team:
        kept = shown(team)
        notices = str(notice_forms(team.view.list_tools("docs").notices))
    outage = caplog.text
    caplog.clear()
    company.rows.owner.roles.revoke(role.name, SCOPE)
    async with company.open(company.team, role.url) as team:
        revoked = shown(team)

    assert kept == seen
    assert len(seen) == 3
    assert "REGISTRY_UNAVAILABLE" in notices
    assert revoked == set()
    assert "what was last known is used" in outage
    assert "nothing of it is shown" in caplog.text
    assert "what was last known is used" not in caplog.text


@pytest.mark.requirement("SCP-28")
async def test_a_gateway_that_only_reads_keeps_its_own_in_its_data_folder(
    company: Company,
) -> None:
    await listed(company)
    role = company.rows.role(OTHER_TEAM)
    before = company.rows.owner.newest_decision()
    async with company.open(company.team, role.url) as team:
        await team.servers.disable("payroll")
        await team.refresh()
    async with company.open(company.team, role.url) as team:
        is_off = not team.view.settings.by_name["payroll"].enabled  # type: ignore[index]
    async with company.team.open(environ={"DATABASE_URL": role.url}, worker=True) as worker:
        with pytest.raises(RegistryError, match="only reads its registry"):
            await worker.work(WorkerOptions(is_once=True), lambda _: None)

    assert is_off
    assert company.rows.owner.newest_decision() == before
    assert company.rows.owner.switches(SCOPE) == {}
