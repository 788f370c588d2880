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

_MOST = 100  # hits
_MOST_OF_AGENTS = 50


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(max_length=QUERY_BYTES, description="What to do, in a few words.")]
    server: Annotated[str | None, Meta(description="Only this server.")] = None
    tag: Annotated[tuple[str, ...], Meta(description="Only with all of these tags.")] = ()
    any_tag: Annotated[bool, Meta(description="One of the tags is enough.")] = False
    limit: Annotated[int, Meta(ge=1, le=_MOST)] | None = None
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
    asked = request.asked
    if asked.all:
        request.require_scope("admin")
    engine = request.engine if asked.view is None else request.engine.in_view(asked.view)
    answer = await engine.search(
        asked.query,
        server=asked.server,
        tags=asked.tag,
        any_tag=asked.any_tag,
        limit=asked.limit,
        include_disabled=asked.all,
        kinds=asked.kind,
    )
    return search_form(answer, engine.view, explain=asked.explain)


async def examine(request: ApiRequest[ExaminedQuery]) -> JSONObject:
    asked, owner = request.asked, request.owner
    found = await owner.examine(
        asked.query, view=asked.view, server=asked.server, tags=asked.tag, limit=asked.limit
    )
    given = {
        "query": asked.query,
        "server": asked.server,
        "limit": asked.limit,
        "tags": list(asked.tag) or None,
    }
    written = {name: value for name, value in given.items() if value is not None}
    tools = owner.toolset(view=asked.view)
    answer = await tools.call_as_result("search_tools", written)
    return examination_form(found, owner.view) | {"agent": _agent_form(answer, found.shown)}


def _agent_form(answer: JSONObject, shown: View) -> JSONObject:
    """Return the text that an agent reads, its number of tokens, and the limit on them."""
    known = answer.get("_meta", {}).get("discovery/answer", {})
    text = "\n".join(block["text"] for block in answer["content"])
    most = shown.settings.search.max_tokens
    return {"text": text, "tokens": known.get("tokens"), "max_tokens": most}


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
