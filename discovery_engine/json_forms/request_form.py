"""Requests of agents, for their owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import to_builtins

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.registry.request_records import AgentRequest


def request_form(request: AgentRequest) -> JSONObject:
    form: JSONObject = to_builtins(request)
    return form
