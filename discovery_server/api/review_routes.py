"""Routes of the owner's decisions: changed tools that wait for review, servers for approval."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import anyio.to_thread
from msgspec import Meta, Struct, field

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import PlanChangedError
from discovery_engine.json_forms.candidate_form import candidate_form, override_forms
from discovery_engine.json_forms.plan_digest import require_shown, with_digest
from discovery_engine.json_forms.review_form import review_summary_form, reviewed_server_form
from discovery_engine.owner.candidates import Candidate
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.review import Review
from discovery_server.api.paging import PageQuery, page
from discovery_server.api.route import ApiRequest, ApiRoute, Digest, Nothing

_Tools = Annotated[tuple[str, ...], Meta(description="Only these; all without one.")]


class WaitingPage(Struct, frozen=True):
    servers: list[JSONObject]
    lost_at: Annotated[
        float | None,
        Meta(description="Unix time at which decisions were lost; null if none were."),
    ]
    next_cursor: str | None


class ReviewQuery(Struct, frozen=True, forbid_unknown_fields=True):
    tool: _Tools = ()


class AcceptChanges(Struct, frozen=True, forbid_unknown_fields=True):
    digest: Digest
    tools: _Tools = ()


class ChangesAccepted(Struct, frozen=True):
    accepted_count: int
    waiting_count: Annotated[int, Meta(description="Of this server.")]


class EndLoss(Struct, frozen=True, forbid_unknown_fields=True):
    forced: Annotated[bool, Meta(description="Also where servers could not be listed since.")] = (
        False
    )


class LossEnded(Struct, frozen=True):
    is_over: bool
    unlisted: Annotated[list[str], Meta(description="Servers that could not be listed since.")]


class Candidates(Struct, frozen=True):
    servers: Annotated[list[JSONObject], Meta(description="Each with the digest of itself.")]
    overrides: Annotated[list[JSONObject], Meta(description="Those of the file; agents read them.")]


class Approve(Struct, frozen=True, forbid_unknown_fields=True):
    servers: Annotated[
        dict[str, Digest], Meta(description="The digest of each, as it was shown.")
    ] = field(default_factory=dict)


class Approved(Struct, frozen=True):
    approved: list[str]


class Revoked(Struct, frozen=True):
    revoked: Annotated[int, Meta(description="Servers that were approved.")]


async def reviews(request: ApiRequest[PageQuery]) -> WaitingPage:
    query, owner = request.asked, request.owner
    changes = await owner.review.changes(only_listed=True)
    page_changes, cursor = page(
        sorted(changes.items()), lambda entry: entry[:1], query.cursor, query.limit
    )
    summaries = [review_summary_form(name, waiting) for name, waiting in page_changes]
    return WaitingPage(summaries, owner.view.lost_at or None, cursor)


async def review(request: ApiRequest[ReviewQuery]) -> JSONObject:
    _, form = await _waiting(request, request.asked.tool)
    return with_digest(form)


async def accept_changes(request: ApiRequest[AcceptChanges]) -> ChangesAccepted:
    body, owner = request.asked, request.owner
    changes, form = await _waiting(request, body.tools)
    require_shown(form, body.digest, f"accepting the changes of {form['name']!r}")
    count = await owner.review.accept(changes)
    left = await owner.review.changes(changes, only_listed=True)
    return ChangesAccepted(count, sum(map(len, left.values())))


async def end_loss(request: ApiRequest[EndLoss]) -> LossEnded:
    unlisted = await request.owner.review.end_loss(is_forced=request.asked.forced)
    return LossEnded(not unlisted, list(unlisted or ()))


async def trust(request: ApiRequest[Nothing]) -> Candidates:
    candidates = await request.owner.trust.candidates()
    overrides = override_forms(request.owner.settings) if candidates else []
    return Candidates(
        [with_digest(candidate_form(candidate)) for candidate in candidates], overrides
    )


async def approve_servers(request: ApiRequest[Approve]) -> Approved:
    waiting = {
        str(candidate.server.name): candidate
        for candidate in await request.owner.trust.candidates()
    }
    candidates = [_shown(waiting, *entry) for entry in request.asked.servers.items()]
    await request.owner.trust.approve(candidates)
    return Approved([candidate.server.name for candidate in candidates])


async def revoke_approval(request: ApiRequest[Nothing]) -> Revoked:
    return Revoked(await request.owner.trust.revoke([request.path["server"]]))


async def _waiting(
    request: ApiRequest[ReviewQuery] | ApiRequest[AcceptChanges], tools: tuple[str, ...]
) -> tuple[dict[ServerName, tuple[Review, ...]], JSONObject]:
    """Return the changes of the server that wait for review, by its name, and their form."""
    named = request.owner.view.server_settings(request.path["server"]).name
    changes = (await request.owner.review.changes([named], tools=tools)).get(named, ())
    # In a thread: a server may change thousands of texts at once.
    form = await anyio.to_thread.run_sync(partial(reviewed_server_form, named, changes))
    return {named: changes}, form


def _shown(waiting: dict[str, Candidate], name: str, digest: str) -> Candidate:
    """The server of that name, if it waits as it was shown.

    Raises:
        PlanChangedError: If not.
    """
    subject = f"approving {name!r}"
    if name not in waiting:
        raise PlanChangedError(subject)
    require_shown(candidate_form(waiting[name]), digest, subject)
    return waiting[name]


_REVIEW, _TRUST = "/review", "/trust"
ROUTES = (
    ApiRoute(
        "GET",
        _REVIEW,
        "List the servers with changed tools",
        reviews,
        PageQuery,
        WaitingPage,
        scope="admin",
    ),
    ApiRoute(
        "GET",
        f"{_REVIEW}/{{server}}",
        "Show what has changed, word by word",
        review,
        ReviewQuery,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_REVIEW}/{{server}}/accept",
        "Accept what was shown",
        accept_changes,
        AcceptChanges,
        ChangesAccepted,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        f"{_REVIEW}/end-loss",
        "Accept tools at first sight again, after decisions were lost",
        end_loss,
        EndLoss,
        LossEnded,
        scope="admin",
    ),
    ApiRoute(
        "GET",
        _TRUST,
        "Show the servers that wait for approval",
        trust,
        answer=Candidates,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        _TRUST,
        "Approve servers as shown",
        approve_servers,
        Approve,
        Approved,
        scope="admin",
    ),
    ApiRoute(
        "DELETE",
        f"{_TRUST}/{{server}}",
        "Take back the approval of a server",
        revoke_approval,
        answer=Revoked,
        scope="admin",
    ),
)
