"""Routes of tokens: what the tools take of an agent's context, in each way to have them."""

from __future__ import annotations

from typing import Annotated

import anyio.to_thread
from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.context_costs import context_costs
from discovery_engine.evaluation.suggest import drafted_requests
from discovery_engine.limits import QUERY_BYTES
from discovery_engine.view.view import View
from discovery_server.api.route import ApiRequest, ApiRoute


class CostQuery(Struct, frozen=True, forbid_unknown_fields=True):
    request: Annotated[
        str,
        Meta(
            max_length=QUERY_BYTES,
            description="What an agent would search for; without it the figures are the mean of"
            " requests that are drafted from the descriptions.",
        ),
    ] = ""


class ContextCosts(Struct, frozen=True):
    drafted: bool
    requests: int
    ways: Annotated[list[JSONObject], Meta(description="`all`, `meta`, `select`; estimated.")]


async def tokens(request: ApiRequest[CostQuery]) -> ContextCosts:
    view, text = request.engine.view, request.asked.request
    return await anyio.to_thread.run_sync(_costs, view, text)


def _costs(view: View, asked: str) -> ContextCosts:
    requests = [asked] if asked else drafted_requests(view)
    costs = context_costs(view, requests) if requests else ()
    return ContextCosts(not asked, len(requests), [cost.to_json() for cost in costs])


ROUTES = (
    ApiRoute(
        "GET",
        "/tokens",
        "Estimate what the tools take of an agent's context",
        tokens,
        CostQuery,
        ContextCosts,
    ),
)
