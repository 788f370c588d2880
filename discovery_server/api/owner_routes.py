"""Routes of the owner's decisions: changed tools, new servers, requests of agents, secrets."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import anyio.to_thread
from msgspec import Meta, Struct, field, to_builtins

from discovery_engine._util.json import JSONObject
from discovery_engine.engine.json_forms.owner_forms import (
    candidate_form,
    override_forms,
    review_summary_form,
    reviewed_server_form,
)
from discovery_engine.engine.owner.candidates import Candidate
from discovery_engine.errors import PlanChangedError
from discovery_engine.marketplace.json_forms import request_plan_form
from discovery_engine.store.stored_records import AgentRequest
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.review import Review
from discovery_server.api.paging import PageQuery, page
from discovery_server.api.route import (
    ApiRequest,
    Confirmation,
    Digest,
    Nothing,
    Routes,
    SecretValues,
    Values,
    require_shown,
    to_confirm,
    with_digest,
)

routes = Routes()


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


@routes("GET", "/review")
async def reviews(request: ApiRequest[PageQuery]) -> WaitingPage:
    """List the servers with changed tools."""
    query, owner = request.asked, request.owner
    changes = await owner.review.changes(only_listed=True)
    page_changes, cursor = page(
        sorted(changes.items()), lambda entry: entry[:1], query.cursor, query.limit
    )
    summaries = [review_summary_form(name, waiting) for name, waiting in page_changes]
    return WaitingPage(summaries, owner.view.lost_at or None, cursor)


@routes("GET", "/review/{server}")
async def review(request: ApiRequest[ReviewQuery]) -> JSONObject:
    """Show what has changed, word by word."""
    _, form = await _waiting(request, request.asked.tool)
    return with_digest(form)


@routes("POST", "/review/{server}/accept")
async def accept_changes(request: ApiRequest[AcceptChanges]) -> ChangesAccepted:
    """Accept what was shown."""
    body, owner = request.asked, request.owner
    changes, form = await _waiting(request, body.tools)
    require_shown(form, body.digest, f"accepting the changes of {form['name']!r}")
    count = await owner.review.accept(changes)
    left = await owner.review.changes(changes, only_listed=True)
    return ChangesAccepted(count, sum(map(len, left.values())))


@routes("POST", "/review/end-loss")
async def end_loss(request: ApiRequest[EndLoss]) -> LossEnded:
    """Accept tools at first sight again, after decisions were lost."""
    unlisted = await request.owner.review.end_loss(is_forced=request.asked.forced)
    return LossEnded(not unlisted, list(unlisted or ()))


@routes("GET", "/trust")
async def trust(request: ApiRequest[Nothing]) -> Candidates:
    """Show the servers that wait for approval."""
    candidates = await request.owner.trust.candidates()
    overrides = override_forms(request.owner.settings) if candidates else []
    return Candidates(
        [with_digest(candidate_form(candidate)) for candidate in candidates], overrides
    )


@routes("POST", "/trust")
async def approve_servers(request: ApiRequest[Approve]) -> Approved:
    """Approve servers as shown."""
    waiting = {
        str(candidate.server.name): candidate
        for candidate in await request.owner.trust.candidates()
    }
    candidates = [_shown(waiting, *entry) for entry in request.asked.servers.items()]
    await request.owner.trust.approve(candidates)
    return Approved([candidate.server.name for candidate in candidates])


@routes("DELETE", "/trust/{server}")
async def revoke_approval(request: ApiRequest[Nothing]) -> Revoked:
    """Take back the approval of a server."""
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


_LONGEST_SECRET = 64 * 1024


class AgentRequests(Struct, frozen=True):
    requests: list[JSONObject]


class RequestsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    state: Literal["waiting", "accepted", "declined", "failed"] | None = None


class Decision(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    action: Literal["accept", "decline"]
    reason: Annotated[
        str, Meta(max_length=500, description="The agent reads why it is declined.")
    ] = ""
    values: Values = field(default_factory=dict)
    secrets: SecretValues = field(default_factory=dict)
    digest: Confirmation = None


class SecretNames(Struct, frozen=True):
    names: Annotated[list[str], Meta(description="Values are never shown.")]


class SecretValue(Struct, frozen=True, forbid_unknown_fields=True):
    value: Annotated[str, Meta(min_length=1, max_length=_LONGEST_SECRET)]


class SecretDeleted(Struct, frozen=True):
    deleted: bool


@routes("GET", "/requests")
async def agent_requests(request: ApiRequest[RequestsQuery]) -> AgentRequests:
    """List what agents asked for."""
    requests = await request.owner.requests.list(request.asked.state)
    return AgentRequests(to_builtins(requests))


@routes("POST", "/requests/{id}")
async def decide_request(request: ApiRequest[Decision]) -> JSONObject:
    """Do what an agent asked for, as it was shown, or decline it."""
    requests, named, body = request.owner.requests, request.path["id"], request.asked
    if body.action == "decline":
        return _form(await requests.decline(named, reason=body.reason))
    plan = await requests.plan(named, values=body.values, secrets=body.secrets)
    form = request_plan_form(plan, request.owner.settings)
    if to_show := to_confirm(form, body.digest, f"request {named!r}"):
        return to_show
    return _form(await requests.accept(named, plan=plan))


def _form(request: AgentRequest) -> JSONObject:
    form: JSONObject = to_builtins(request)
    return form


@routes("GET", "/secrets")
async def secret_names(request: ApiRequest[Nothing]) -> SecretNames:
    """List the names of stored secrets."""
    return SecretNames(list(await anyio.to_thread.run_sync(request.owner.secrets.names)))


@routes("PUT", "/secrets/{name:path}")
async def set_secret(request: ApiRequest[SecretValue]) -> SecretNames:
    """Store a secret."""
    secrets = request.owner.secrets
    await anyio.to_thread.run_sync(secrets.set, request.path["name"], request.asked.value)
    return SecretNames(list(await anyio.to_thread.run_sync(secrets.names)))


@routes("DELETE", "/secrets/{name:path}")
async def delete_secret(request: ApiRequest[Nothing]) -> SecretDeleted:
    """Delete a secret."""
    delete = request.owner.secrets.delete
    return SecretDeleted(await anyio.to_thread.run_sync(delete, request.path["name"]))
