"""Routes of searching: what fits a request, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.json_forms.search_form import examination_form, search_form
from discovery_engine.json_forms.verdict_form import explained_tool_form, visible_to_form
from discovery_engine.limits import QUERY_BYTES
from discovery_engine.view.reservations import reservations_of
from discovery_engine.view.search_answers import SearchKind
from discovery_engine.view.verdict_explanation import explain_tool, why_hidden
from discovery_server.api.route import ApiRequest, ApiRoute, find_listed

if TYPE_CHECKING:
    from discovery_engine.view.view import View

_MAX_SEARCH_HITS = 100  # hits
_MOST_OF_AGENTS = 50


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(max_length=QUERY_BYTES, description="What to do, in a few words.")]
    server: Annotated[str | None, Meta(description="Only this server.")] = None
    tag: Annotated[tuple[str, ...], Meta(description="Only with all of these tags.")] = ()
    any_tag: Annotated[bool, Meta(description="One of the tags is enough.")] = False
    limit: Annotated[int, Meta(ge=1, le=_MAX_SEARCH_HITS)] | None = None
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


class WhyQuery(Struct, frozen=True, forbid_unknown_fields=True):
    view: Annotated[str | None, Meta(description="Also whether this view hides it.")] = None


async def search(request: ApiRequest[SearchQuery]) -> JSONObject:
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
    return search_form(answer, engine.view, explain=parameters.explain)


async def examine(request: ApiRequest[ExaminedQuery]) -> JSONObject:
    parameters, owner = request.asked, request.owner
    examination = await owner.examine(
        parameters.query,
        view=parameters.view,
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
    tools = owner.toolset(view=parameters.view)
    answer = await tools.call_as_result("search_tools", arguments)
    return examination_form(examination, owner.view) | {
        "agent": _agent_form(answer, examination.shown)
    }


def _agent_form(answer: JSONObject, shown: View) -> JSONObject:
    """Return the text that an agent reads, its number of tokens, and the limit on them."""
    meta = answer.get("_meta", {}).get("discovery/answer", {})
    text = "\n".join(block["text"] for block in answer["content"])
    most = shown.settings.search.max_tokens
    return {"text": text, "tokens": meta.get("tokens"), "max_tokens": most}


async def why(request: ApiRequest[WhyQuery]) -> JSONObject:
    entry = await find_listed(request, request.path["server"], request.path["tool"])
    view = request.engine.view
    explanation = explain_tool(view, entry)
    form: dict[str, Any] = explained_tool_form(entry, explanation, view)
    if "admin" in request.scopes:
        form |= visible_to_form(reservations_of(view, entry, explanation))
    if name := request.asked.view:
        form |= {"view": name, "hidden": why_hidden(view, entry, name)}
    return form


ROUTES = (
    ApiRoute("GET", "/search", "Find tools, resources and prompts", search, SearchQuery),
    ApiRoute(
        "GET",
        "/search/examination",
        "Show what an agent finds, why, and what is hidden from it",
        examine,
        ExaminedQuery,
        scope="admin",
    ),
    ApiRoute(
        "GET",
        "/servers/{server}/tools/{tool}/why",
        "Explain why a tool is enabled or disabled",
        why,
        WhyQuery,
        scope="admin",
    ),
)
