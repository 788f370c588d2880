"""What an agent gets of an engine: the answers of its meta-tools."""

from __future__ import annotations

from typing import Any

from discovery_engine import CallbackClient, Engine
from tests.catalogs import JSONObject


async def ask(
    engine: Engine, meta_tool: str, /, *, asker: CallbackClient | None = None, **arguments: Any
) -> JSONObject:
    """The result of a meta-tool, called by `asker`."""
    return await engine.toolset(client=asker).call_as_result(meta_tool, arguments)


def text_of(result: JSONObject) -> str:
    """What a model reads of it."""
    return "\n".join(block["text"] for block in result["content"])


def fields_of(result: JSONObject) -> JSONObject:
    """What a program reads of it."""
    fields: JSONObject = result["_meta"]["discovery/answer"]
    return fields
