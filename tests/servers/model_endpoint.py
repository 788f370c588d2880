"""An endpoint whose model does what a test says, by the protocols of Anthropic, OpenAI and Google.

The model makes the calls that it is given, one a turn, and then says that it is done.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from discovery_engine._util.json import JSONObject

DONE = "That is done."
Call = tuple[str, JSONObject]
"""The end of a tool's name, before which each agent has a prefix of its own, and arguments."""


@dataclass(frozen=True)
class Turn:
    """A request of an agent."""

    tools: list[str]
    """The names that its model may call at once."""
    results: list[str]
    """The texts of all results so far."""
    answer: list[JSONObject]
    """The events that follow."""


@contextmanager
def model_endpoint(calls: Sequence[Call]) -> Iterator[tuple[str, list[Turn]]]:
    """The address of an endpoint, without a path, and what it was asked."""
    turns: list[Turn] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            for end, answer in _DIALECTS.items():
                if self.path.partition("?")[0].endswith(end):
                    turns.append(answer(body, calls))
                    self._send(200, "".join(map(_event, turns[-1].answer)))
                    return
            self._send(404)

        def do_GET(self) -> None:
            self._send(404)

        def _send(self, status: int, text: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", turns
        finally:
            server.shutdown()
            thread.join()


def _event(event: JSONObject) -> str:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


def _next(tools: Sequence[str], results: Sequence[str], calls: Sequence[Call]) -> Call | None:
    """The call that is due, by the tool's whole name; None at the end, or without that tool."""
    for end, arguments in calls[len(results) :][:1]:
        for name in tools:
            if name.endswith(end):
                return name, arguments
    return None


def _text(content: str | list[JSONObject]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text") or block.get("tool_name")) for block in content)


def _messages(body: Any, calls: Sequence[Call]) -> Turn:
    """Anthropic's Messages."""
    tools = [tool["name"] for tool in body["tools"]]
    blocks = [
        block
        for message in body["messages"]
        if not isinstance(message["content"], str)
        for block in message["content"]
    ]
    results = [_text(block["content"]) for block in blocks if block["type"] == "tool_result"]
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"type": "message", "id": f"msg_{len(results)}", "role": "assistant", "content": []}
    message |= {"model": body["model"], "usage": usage, "stop_reason": None, "stop_sequence": None}
    if call := _next(tools, results, calls):
        block = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": DONE}
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    events: list[JSONObject] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": usage},
        {"type": "message_stop"},
    ]
    return Turn(tools, results, events)


def _responses(body: Any, calls: Sequence[Call]) -> Turn:
    """OpenAI's Responses, where a server's tools have a namespace."""
    spaces = {
        member["name"]: tool["name"]
        for tool in body["tools"]
        if tool["type"] == "namespace"
        for member in tool["tools"]
    }
    results = [
        _text(item["output"]) for item in body["input"] if item["type"] == "function_call_output"
    ]
    item: JSONObject
    if call := _next([*spaces], results, calls):
        item = {"type": "function_call", "name": call[0], "namespace": spaces[call[0]]}
        item |= {"call_id": f"call_{len(results)}", "arguments": json.dumps(call[1])}
    else:
        content = [{"type": "output_text", "text": DONE}]
        item = {"type": "message", "role": "assistant", "content": content}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    identity = f"resp_{len(results)}"
    events: list[JSONObject] = [
        {"type": "response.created", "response": {"id": identity}},
        {"type": "response.output_item.done", "item": {**item, "id": f"item_{len(results)}"}},
        {"type": "response.completed", "response": {"id": identity, "usage": usage}},
    ]
    return Turn([f"{space}__{name}" for name, space in spaces.items()], results, events)


def _contents(body: Any, calls: Sequence[Call]) -> Turn:
    """Google's `streamGenerateContent`."""
    tools = [
        function["name"]
        for tool in body["tools"]
        for function in tool.get("functionDeclarations", ())
    ]
    parts = [part for content in body["contents"] for part in content["parts"]]
    results = [
        str(part["functionResponse"]["response"]["output"])
        for part in parts
        if "functionResponse" in part
    ]
    call = _next(tools, results, calls)
    part = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": DONE}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return Turn(tools, results, [{"candidates": [candidate]}])


_DIALECTS = {
    "/v1/messages": _messages,
    "/responses": _responses,
    ":streamGenerateContent": _contents,
}
"""By the ends of paths."""
