"""A registry in PostgreSQL in which much is reserved for one team, and roles of other teams."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from msgspec import Struct
from msgspec.structs import replace
from psycopg import sql

from discovery_engine.catalog import DroppedTool, Failure, RemovedTool, ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.fleet.refresh_job import RefreshTarget
from discovery_engine.overrides.override import Override
from discovery_engine.registry.backends import open_database
from discovery_engine.registry.postgres.postgres_registry import PostgresRegistry
from discovery_engine.registry.preset_records import Preset
from discovery_engine.registry.relay_records import RelayedRequest, RelayTurn
from discovery_engine.registry.request_records import AgentRequest
from discovery_engine.registry.server_records import RegisteredServer
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.search.database.search_store import ServerDocuments, StoredDocument
from discovery_engine.search.database.vector_store import StoredVector
from discovery_engine.search.examples.written import WrittenRequests
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.trust.decisions import Acceptance, Approval
from tests.factories import (
    make_entry,
    make_offering_entry,
    make_part,
    make_server,
    make_settings,
)
from tests.postgres import PostgresServer

SCOPE = "name:company"
CANARY = "kanarie"
"""In every field of what is reserved, and in nothing else."""
OPEN = "openly"
"""In what is for all."""
OWN_TEAM, OTHER_TEAM = "team:payments", "team:sales"
PAYROLL = ServerName(f"payroll-{CANARY}")
_PASSWORD = "of the team"


class Role(Struct):
    """A role of a team, and how it logs in."""

    name: str
    url: str

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True)


class ReservedRows(Struct):
    """A database in which everything is filled, and its owner's registry."""

    server: PostgresServer
    url: str
    owner: PostgresRegistry

    def role(self, *principals: str, scope: str = SCOPE, options: str = "") -> Role:
        """A new role, granted what these principals may see."""
        role = self.stranger(options)
        self.owner.roles.grant(role.name, scope, principals)
        return role

    def stranger(self, options: str = "") -> Role:
        """A new role without any grant."""
        name = f"team_{secrets.token_hex(6)}"
        with self.server.admin() as admin:
            create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} " + options)
            admin.execute(create.format(sql.Identifier(name), sql.Literal(_PASSWORD)))
        password = _PASSWORD.replace(" ", "%20")
        address = f"127.0.0.1:{self.server.port}/{self.url.rpartition('/')[2]}"
        return Role(name, f"postgresql://{name}:{password}@{address}")


@contextmanager
def filled(server: PostgresServer) -> Iterator[ReservedRows]:
    url = server.create_database()
    with server.admin(url.rpartition("/")[2]) as admin:
        admin.execute("CREATE EXTENSION vector")
    with closing(open_database(url, timeout=60.0)) as owner:
        _fill(owner)
        yield ReservedRows(server, url, owner)


def reserving(**changes: Any) -> Settings:
    """One server for a team, and of another one a tool, a resource and a prompt."""
    payroll = make_server(
        PAYROLL,
        visible_to=(OWN_TEAM,),
        description=f"What {CANARY} pays",
        tags=(f"tag-{CANARY}",),
        package=f"@{CANARY}/pay",
    )
    return replace(
        make_settings(payroll, "docs"),
        webhooks=(WebhookSettings(CANARY, f"https://{CANARY}.example", (f"${{{CANARY}}}",)),),
        tool_rules=(Rule(("pay_*",), visible_to=(OWN_TEAM,)),),
        resource_rules=(Rule(("*salar*",), visible_to=(OWN_TEAM,)),),
        prompt_rules=(Rule(("dismiss*",), visible_to=(OWN_TEAM,)),),
        overrides=(Override(servers=(PAYROLL,), description=f"Instead {CANARY}"),),
        **changes,
    )


def payroll() -> ServerPart:
    """A server for one team alone."""
    tool = make_entry(f"transfer_{CANARY}", PAYROLL, description=CANARY, tags=(CANARY,))
    other = make_offering_entry(f"pay:/{CANARY}", PAYROLL)
    return make_part(PAYROLL, tool, offerings=(other,), instructions=CANARY, connection=CANARY)


def docs() -> ServerPart:
    """A server for all, with much that is not."""
    held = make_entry(f"held_{CANARY}", "docs", description=CANARY)
    prompt = OfferingKind.PROMPT
    return make_part(
        "docs",
        make_entry(f"pay_{CANARY}", "docs", description=CANARY, title=CANARY),
        make_entry(f"read_{OPEN}", "docs", description=f"Read a page, {OPEN}."),
        make_entry(f"off_{CANARY}", "docs", enabled=False),
        replace(held, verdict=Verdict(False, (), "changed")),
        offerings=(
            make_offering_entry(f"file:///{OPEN}"),
            make_offering_entry(f"file:///salaries-{CANARY}", description=CANARY),
            make_offering_entry(f"file:///off-{CANARY}", enabled=False),
            make_offering_entry(f"dismiss-{CANARY}", kind=prompt),
            make_offering_entry(f"greet-{OPEN}", kind=prompt),
        ),
        instructions=f"Use pay_{CANARY}.",
        new_instructions=f"Now {CANARY}",
        dropped=(DroppedTool(f"drop_{CANARY}", CANARY),),
        removed=(RemovedTool(f"was_{CANARY}", 1.0),),
        unlisted={"prompts": CANARY},
        failure=Failure("X", CANARY, CANARY, 1.0, stderr=CANARY, detail=CANARY, missing=(CANARY,)),
    )


def _fill(owner: PostgresRegistry) -> None:
    """Something in every table, each with the canary."""
    tool = ToolKey(PAYROLL, ToolName(f"transfer_{CANARY}"))
    owner.save_settings(SCOPE, reserving())
    owner.save_parts(SCOPE, [payroll(), docs()], revision=1)
    owner.approve(SCOPE, [Approval(PAYROLL, CANARY)], at=1.0)
    owner.accept(SCOPE, [Acceptance(PAYROLL, CANARY, CANARY, CANARY, CANARY)], at=1.0)
    owner.save_servers(SCOPE, [RegisteredServer(PAYROLL, {"url": f"https://{CANARY}.example"})])
    owner.set_switches(SCOPE, {PAYROLL: True}, at=1.0)
    owner.acknowledge_loss(SCOPE, at=2.0)
    owner.report_loss(at=1.0)
    owner.acknowledge_loss(CANARY, at=2.0)
    owner.count_use(SCOPE, tool, at=1.0)
    owner.save_era(CANARY, {"carrier": CANARY})
    owner.save_vectors(SCOPE, CANARY, {CANARY.encode(): CANARY.encode()})
    owner.save_requests([WrittenRequests(PAYROLL, CANARY, CANARY, (CANARY,), CANARY, 1, 1.0)])
    owner.save_preset(SCOPE, Preset(PAYROLL, CANARY, CANARY, {"a": CANARY}, 1.0))
    owner.save_agent_request(SCOPE, AgentRequest(CANARY, "sync", name=CANARY))
    owner.acquire_lease(CANARY, CANARY)
    owner.gateways.keep_result(CANARY.encode(), CANARY.encode(), lifetime=3600.0)
    owner.gateways.change_access_tokens(SCOPE, lambda _: (CANARY,))
    request = RelayedRequest(CANARY.encode(), CANARY, CANARY, CANARY.encode())
    owner.gateways.take_turn(RelayTurn(asked=[request]))
    owner.plan_refreshes(SCOPE, [RefreshTarget(PAYROLL, CANARY)])
    index = owner.search.stored_index(SCOPE, CANARY.encode(), since=0)
    assert index
    document = StoredDocument(1, [1], CANARY.encode())
    digest = CANARY.encode()
    documents = ServerDocuments(PAYROLL, digest, digest, [document], {(1, CANARY): 1})
    owner.search.save_documents(index.number, [documents], unlisted=())
    space = owner.search.vectors.open_space(index.number, CANARY, 4)
    [number] = owner.search.vectors.missing(space)
    owner.search.vectors.save(space, {number: [StoredVector(b"\0<" * 4, None)]})
