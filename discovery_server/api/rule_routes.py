"""Routes of what an owner tunes: rules, overrides and synonyms, tried before they are written."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.context_costs import answer_tokens, definition_tokens
from discovery_engine.errors import ConfigurationError
from discovery_engine.json_forms.change_form import case_run_form, change_form, section_form
from discovery_engine.json_forms.error_form import problem_form
from discovery_engine.limits import QUERY_BYTES
from discovery_server.api.route import ApiRequest, ApiRoute, Digest, Nothing

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


class SectionsWrite(Struct, frozen=True, forbid_unknown_fields=True):
    sections: Sections
    digest: Digest


class SectionsWritten(Struct, frozen=True):
    path: str
    backup: Annotated[str | None, Meta(description="The file before; null if nothing changed.")]
    diff: str
    sections: list[JSONObject]


async def rules(request: ApiRequest[Nothing]) -> RuleSections:
    sections = await request.owner.changes.sections()
    return RuleSections(request.owner.settings.path, list(map(section_form, sections)))


async def plan_rules(request: ApiRequest[SectionsPlan]) -> JSONObject:
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


async def write_rules(request: ApiRequest[SectionsWrite]) -> SectionsWritten:
    changes = request.owner.changes
    planned = await changes.plan(request.asked.sections)
    planned.require_shown(request.asked.digest)
    await changes.apply(planned)
    edit = planned.edit.edit
    sections = list(map(section_form, await changes.sections()))
    backup = str(edit.backup) if not edit.is_empty else None
    return SectionsWritten(str(edit.path), backup, planned.edit.diff, sections)


ROUTES = (
    ApiRoute(
        "GET",
        "/rules",
        "Show rules, overrides and synonyms as they are written",
        rules,
        answer=RuleSections,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        "/rules/plan",
        "Show what other rules, overrides or synonyms would do; nothing is written",
        plan_rules,
        SectionsPlan,
        scope="admin",
    ),
    ApiRoute(
        "PUT",
        "/rules",
        "Write rules, overrides or synonyms as they were planned",
        write_rules,
        SectionsWrite,
        SectionsWritten,
        scope="admin",
    ),
)
