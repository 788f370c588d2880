"""Run a recipe with a model that searches once, and repeats what it is answered.

    python recipe.py RECIPE CODE

CODE is that of the recipe, which takes the model as `model`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

SEARCH = "search_tools"
ARGUMENTS = {"query": "echo a text"}


def autogen() -> Any:
    from autogen_core import FunctionCall
    from autogen_core.models import CreateResult, RequestUsage
    from autogen_ext.models.replay import ReplayChatCompletionClient

    call = CreateResult(
        finish_reason="function_calls",
        content=[FunctionCall(id="1", name=SEARCH, arguments=json.dumps(ARGUMENTS))],
        usage=RequestUsage(prompt_tokens=1, completion_tokens=1),
        cached=False,
    )
    abilities = dict.fromkeys(("vision", "json_output", "structured_output"), False)
    info: Any = {"function_calling": True, "family": "unknown", **abilities}
    return ReplayChatCompletionClient([call], model_info=info)


def strands() -> Any:
    from strands.models import Model

    class Scripted(Model):
        def update_config(self, **_: Any) -> None: ...

        def get_config(self) -> Any:
            return {}

        async def structured_output(self, *_: Any, **__: Any) -> Any:
            yield {}

        async def stream(self, messages: Any, *_: Any, **__: Any) -> Any:
            yield {"messageStart": {"role": "assistant"}}
            if results := [one for one in messages[-1]["content"] if "toolResult" in one]:
                text = results[0]["toolResult"]["content"][0]["text"]
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": text}}}
            else:
                use = {"toolUse": {"name": SEARCH, "toolUseId": "1"}}
                yield {"contentBlockStart": {"start": use}}
                given = {"toolUse": {"input": json.dumps(ARGUMENTS)}}
                yield {"contentBlockDelta": {"delta": given}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn" if results else "tool_use"}}

    return Scripted()


def haystack() -> Any:
    from haystack import component
    from haystack.dataclasses import ChatMessage, ToolCall

    @component
    class Scripted:
        @component.output_types(replies=list[ChatMessage])
        def run(self, messages: list[ChatMessage], tools: Any = None, **_: Any) -> Any:
            if results := messages[-1].tool_call_results:
                return {"replies": [ChatMessage.from_assistant(str(results[0].result))]}
            return {
                "replies": [ChatMessage.from_assistant(tool_calls=[ToolCall(SEARCH, ARGUMENTS)])]
            }

    return Scripted()


def agno() -> Any:
    from agno.models.base import Model
    from agno.models.response import ModelResponse

    class Scripted(Model):
        async def ainvoke(self, messages: Any, **_: Any) -> ModelResponse:
            if messages[-1].role == "tool":
                return ModelResponse(role="assistant", content=str(messages[-1].content))
            function = {"name": SEARCH, "arguments": json.dumps(ARGUMENTS)}
            call = {"id": "1", "type": "function", "function": function}
            return ModelResponse(role="assistant", tool_calls=[call])

        def invoke(self, *_: Any, **__: Any) -> Any: ...

        def invoke_stream(self, *_: Any, **__: Any) -> Any: ...

        def ainvoke_stream(self, *_: Any, **__: Any) -> Any: ...

        def _parse_provider_response(self, response: Any, **_: Any) -> Any:
            return response

        def _parse_provider_response_delta(self, response: Any) -> Any:
            return response

    return Scripted(id="scripted")


if __name__ == "__main__":
    made = {"AutoGen": autogen, "Strands": strands, "Haystack": haystack, "Agno": agno}
    exec(sys.argv[2], {"model": made[sys.argv[1]](), "__name__": "__main__"})
