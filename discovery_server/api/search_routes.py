"""Routes of searching, and of what tunes it: rules, saved queries, and what tools cost."""

from __future__ import annotations

from typing import Annotated, Any

import anyio.to_thread
from msgspec import Meta, Struct, to_builtins

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.context_costs import answer_tokens, context_costs, definition_tokens
from discovery_engine.engine.json_forms.catalog_forms import examination_form, search_form
from discovery_engine.engine.json_forms.error_form import problem_form
from discovery_engine.engine.json_forms.owner_forms import (
    change_form,
    section_form,
)
from discovery_engine.errors import ConfigurationError
from discovery_engine.evaluation.eval_cases import case_file_form, case_run_form
from discovery_engine.evaluation.suggest import drafted_requests
from discovery_engine.rules.rule import PrincipalError
from discovery_engine.tools.limits import QUERY_BYTES
from discovery_engine.view.search_answers import SearchKind
from discovery_engine.view.view import View
from discovery_server.api.route import ApiRequest, Confirmation, Name, Nothing, RequestError, Routes

routes = Routes()


_MAX_SEARCH_HITS = 100  # hits
_MOST_OF_AGENTS = 50


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(max_length=QUERY_BYTES, description="What to do, in a few words.")]
    server: Annotated[str | None, Meta(description="Only this server.")] = None
    tag: Annotated[tuple[str, ...], Meta(description="Only with all of these tags.")] = ()
    any_tag: Annotated[bool, Meta(description="One of the tags is enough.")] = False
    limit: Annotated[int, Meta(ge=1, le=_MAX_SEARCH_HITS)] | None = None
    min_relevance: Annotated[
        float, Meta(ge=0, le=1, description="Only results with at least this relevance.")
    ] = 0.0
    kind: Annotated[tuple[SearchKind, ...], Meta(description="What to find.")] = ("tool",)
    view: Annotated[str | None, Meta(description="As a client of this view would find.")] = None
    all: Annotated[bool, Meta(description="Also tools that a rule disables.")] = False
    explain: Annotated[bool, Meta(description="With what each word adds.")] = False


class ExaminedQuery(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(max_length=QUERY_BYTES, description="As an agent would ask.")]
    server: Annotated[str | None, Meta(description="Only this server.")] = None
    tag: Annotated[tuple[str, ...], Meta(description="Only with all of these tags.")] = ()
    limit: Annotated[int, Meta(ge=1, le=_MOST_OF_AGENTS)] | None = None
    view: Annotated[str | None, Meta(description="As a client of this view would find.")] = None
    principal: Annotated[
        str | None, Meta(description="As this team or user would find, such as `team:ops`.")
    ] = None


@routes("GET", "/search", scope="read")
async def search(request: ApiRequest[SearchQuery]) -> JSONObject:
    """Find tools, resources and prompts."""
    parameters = request.asked
    if parameters.all:
        request.require_scope("admin")
    engine = request.engine if parameters.view is None else request.engine.in_view(parameters.view)
    answer = await engine.search(
        parameters.query,
        server=parameters.server,
        tags=parameters.tag,
        any_tag=parameters.any_tag,
        limit=parameters.limit,
        include_disabled=parameters.all,
        kinds=parameters.kind,
    )
    answer = answer.at_least(parameters.min_relevance)
    return search_form(answer, engine.view, explain=parameters.explain)


@routes("GET", "/search/examination")
async def examine(request: ApiRequest[ExaminedQuery]) -> JSONObject:
    """Show what an agent finds, why, and what is hidden from it."""
    parameters, owner = request.asked, request.owner
    principal = parameters.principal or None
    try:
        agent = owner if principal is None else owner.visible_to(principal)
    except PrincipalError as error:
        raise RequestError(422, str(error), hint=error.hint) from None
    examination = await owner.examine(
        parameters.query,
        view=parameters.view,
        principal=principal,
        server=parameters.server,
        tags=parameters.tag,
        limit=parameters.limit,
    )
    options = {
        "query": parameters.query,
        "server": parameters.server,
        "limit": parameters.limit,
        "tags": list(parameters.tag) or None,
    }
    arguments = {name: value for name, value in options.items() if value is not None}
    tools = agent.toolset(view=parameters.view)
    answer = await tools.call_as_result("search_tools", arguments)
    return examination_form(examination, owner.view) | {
        "agent": _agent_form(answer, examination.shown)
    }


def _agent_form(answer: JSONObject, view: View) -> JSONObject:
    """Return the text that an agent reads, its number of tokens, and the limit on them."""
    meta = answer.get("_meta", {}).get("discovery/answer", {})
    text = "\n".join(block["text"] for block in answer["content"])
    most = view.settings.search.max_tokens
    return {"text": text, "tokens": meta.get("tokens"), "max_tokens": most}


Query = Annotated[str, Meta(max_length=QUERY_BYTES)]
Sections = Annotated[
    dict[str, str | list[Any]],
    Meta(
        max_length=50,
        description="By name, as `GET /rules` has them: the whole text as YAML, or the entries.",
    ),
]


class RuleSections(Struct, frozen=True):
    path: str | None
    sections: list[JSONObject]


class SectionsPlan(Struct, frozen=True, forbid_unknown_fields=True):
    sections: Sections
    queries: Annotated[
        tuple[Query, ...], Meta(max_length=20, description="Whose answers are compared.")
    ] = ()
    view: Annotated[str | None, Meta(description="What changes for clients of this view.")] = None
    cases: Annotated[bool, Meta(description="Also ask the saved cases before and after.")] = False
    digest: Confirmation = None


@routes("GET", "/rules")
async def rules(request: ApiRequest[Nothing]) -> RuleSections:
    """Show rules, overrides and synonyms as they are written."""
    sections = await request.owner.changes.sections()
    return RuleSections(request.owner.settings.path, list(map(section_form, sections)))


@routes("PUT", "/rules")
async def write_rules(request: ApiRequest[SectionsPlan]) -> JSONObject:
    """Show what other rules, overrides or synonyms would do, or write them as shown."""
    body, changes = request.asked, request.owner.changes
    if body.digest is None:
        return await _planned(request)
    planned = await changes.plan(body.sections)
    planned.require_shown(body.digest)
    await changes.apply(planned)
    edit = planned.edit.edit
    return {
        "path": str(edit.path),
        "backup": None if edit.is_empty else str(edit.backup),
        "written": not planned.is_empty,
        "diff": planned.diff,
        "sections": list(map(section_form, await changes.sections())),
    }


async def _planned(request: ApiRequest[SectionsPlan]) -> JSONObject:
    body, changes = request.asked, request.owner.changes
    try:
        planned = await changes.plan(body.sections)
    except ConfigurationError as error:  # usual while a text is being typed: a result, no error
        return {"problems": list(map(problem_form, error.problems)), "digest": None}
    description = await changes.describe(planned, price=definition_tokens, view=body.view)
    moves = await changes.compare(planned.projection, body.queries, view=body.view)
    form = change_form(planned, description, moves)
    if body.cases:
        cases = request.owner.cases
        run = await cases.run(cost=answer_tokens, view=body.view, change=planned.projection)
        form["cases"] = case_run_form(run)
    return form


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


@routes("GET", "/eval/cases")
async def eval_cases(request: ApiRequest[Nothing]) -> JSONObject:
    """List the saved cases."""
    return case_file_form(await request.owner.cases.list())


@routes("POST", "/eval/cases")
async def add_case(request: ApiRequest[NewCase]) -> JSONObject:
    """Save a query with the tools that are right for it."""
    body = request.asked
    added = await request.owner.cases.add(body.query, body.tools, server=body.server, name=body.id)
    form: JSONObject = to_builtins(added)
    return form


@routes("DELETE", "/eval/cases/{id:path}")
async def remove_case(request: ApiRequest[Nothing]) -> CaseRemoved:
    """Remove a saved case."""
    name = request.path["id"]
    await request.owner.cases.remove(name)
    return CaseRemoved(name)


@routes("POST", "/eval/run")
async def run_cases(request: ApiRequest[RunQuery]) -> JSONObject:
    """Ask the saved cases."""
    run = await request.owner.cases.run(cost=answer_tokens, view=request.asked.view)
    return case_run_form(run)


class CostQuery(Struct, frozen=True, forbid_unknown_fields=True):
    request: Annotated[
        str,
        Meta(
            max_length=QUERY_BYTES,
            description="What an agent would search for; without it the figures are the mean of"
            " requests that are drafted from the descriptions.",
        ),
    ] = ""
    each: Annotated[bool, Meta(description="Also those of each tool's definition.")] = False


class ContextCosts(Struct, frozen=True):
    drafted: bool
    requests: int
    ways: Annotated[list[JSONObject], Meta(description="`all`, `meta`, `select`; estimated.")]
    tools: Annotated[dict[str, int], Meta(description="By `server:tool`, with `each`.")]


@routes("GET", "/tokens", scope="read")
async def tokens(request: ApiRequest[CostQuery]) -> ContextCosts:
    """Estimate what the tools take of an agent's context."""
    return await anyio.to_thread.run_sync(_costs, request.engine.view, request.asked)


def _costs(view: View, query: CostQuery) -> ContextCosts:
    requests = [query.request] if query.request else drafted_requests(view)
    costs = context_costs(view, requests) if requests else ()
    visible = view.catalog.visible if query.each else ()
    tools = {str(entry.key): definition_tokens(entry) for entry in visible}
    return ContextCosts(not query.request, len(requests), [cost.to_json() for cost in costs], tools)
