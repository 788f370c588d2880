"""Routes of the owner's queries: cases with the tools that are right, and runs of them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, to_builtins

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.context_costs import answer_tokens
from discovery_engine.json_forms.change_form import case_file_form, case_run_form
from discovery_engine.limits import QUERY_BYTES
from discovery_server.api.route import ApiRequest, ApiRoute, Name, Nothing
from discovery_server.api.rule_routes import Sections


class NewCase(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(min_length=1, max_length=QUERY_BYTES, description="What is asked.")]
    tools: Annotated[
        tuple[Name, ...],
        Meta(max_length=50, description="Each is right, as `server:tool`; without any none is."),
    ] = ()
    server: Annotated[Name, Meta(description="The agent asks for its tools only.")] = ""
    id: Annotated[Name, Meta(description="A name that stays if the words change.")] = ""


class CaseRemoved(Struct, frozen=True):
    removed: str


class RunQuery(Struct, frozen=True, forbid_unknown_fields=True):
    view: Annotated[str | None, Meta(description="As a client of this view asks.")] = None
    sections: Annotated[
        Sections | None, Meta(description="Also ask after this change, which is not written.")
    ] = None


async def eval_cases(request: ApiRequest[Nothing]) -> JSONObject:
    return case_file_form(await request.owner.cases.list())


async def add_case(request: ApiRequest[NewCase]) -> JSONObject:
    body = request.asked
    added = await request.owner.cases.add(body.query, body.tools, server=body.server, name=body.id)
    form: JSONObject = to_builtins(added)
    return form


async def remove_case(request: ApiRequest[Nothing]) -> CaseRemoved:
    name = request.path["id"]
    await request.owner.cases.remove(name)
    return CaseRemoved(name)


async def run_cases(request: ApiRequest[RunQuery]) -> JSONObject:
    body, change = request.asked, None
    if body.sections:
        change = (await request.owner.changes.plan(body.sections)).projection
    cases = request.owner.cases
    return case_run_form(await cases.run(cost=answer_tokens, view=body.view, change=change))


ROUTES = (
    ApiRoute("GET", "/eval/cases", "List the saved cases", eval_cases, scope="admin"),
    ApiRoute(
        "POST",
        "/eval/cases",
        "Save a query with the tools that are right for it",
        add_case,
        NewCase,
        scope="admin",
    ),
    ApiRoute(
        "DELETE",
        "/eval/cases/{id:path}",
        "Remove a saved case",
        remove_case,
        answer=CaseRemoved,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        "/eval/run",
        "Ask the saved cases, now and after a change",
        run_cases,
        RunQuery,
        scope="admin",
    ),
)
