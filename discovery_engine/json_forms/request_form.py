"""Requests of agents, for their owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.registry.request_records import AgentRequest


def request_form(request: AgentRequest) -> JSONObject:
    return {
        "id": request.id,
        "action": request.action,
        "name": request.name,
        "arguments": request.arguments,
        "client": request.client,
        "created_at": request.created_at,
        "state": request.state,
        "decided_at": request.decided_at,
        "outcome": request.outcome,
    }
