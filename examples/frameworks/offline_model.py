"""Claude or GPT without a key: python offline_model.py with_anthropic.py REQUEST [ARGUMENTS].

The example gets a model at loopback, for the APIs of Anthropic and OpenAI. The model searches
for the request, calls the first tool that it gets, with ARGUMENTS as JSON, and repeats the result.
What passes between them is printed.
"""

import json
import os
import runpy
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

JSON = dict[str, Any]
EXAMPLE, REQUEST, ARGUMENTS = [*sys.argv[1:], "{}"][:3]


def claude(body: JSON) -> JSON:
    """Answer a request to Anthropic's Messages API."""
    content = body["messages"][-1]["content"]
    show("results", content)
    block: JSON = {"type": "text", "text": ""}
    if isinstance(content, str):
        block = use(body["tools"][0]["name"], {"query": content})
    elif names := [part["tool_name"] for part in parts(content) if "tool_name" in part]:
        block = use(names[0], json.loads(ARGUMENTS))
    else:
        block["text"] = "\n".join(str(part.get("text")) for part in parts(content))
    show("model", block)
    reason = "tool_use" if block["type"] == "tool_use" else "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"]}
    return {**message, "content": [block], "stop_reason": reason, "usage": usage}


def use(name: str, arguments: JSON) -> JSON:
    return {"type": "tool_use", "id": f"toolu_{name}"[:40], "name": name, "input": arguments}


def parts(results: list[JSON]) -> list[JSON]:
    return [part for result in results for part in result.get("content", [])]


def gpt(body: JSON) -> JSON:
    """Answer a request to OpenAI's Responses API."""
    items = body["input"]
    show("results", items)
    item: JSON = {"id": "item_1", "call_id": "call_1", "status": "completed"}
    if isinstance(items, str):
        item |= {"type": "tool_search_call", "execution": "client", "arguments": {"query": items}}
    elif tools := [tool for output in items for tool in output.get("tools", [])]:
        item |= {"type": "function_call", "name": tools[0]["tools"][0]["name"]}
        item |= {"namespace": tools[0]["name"], "arguments": ARGUMENTS}
    else:
        text = str(items[-1].get("output") or items[-1].get("content"))
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item |= {"type": "message", "role": "assistant", "content": content}
    show("model", item)
    response = {"id": "resp_1", "object": "response", "created_at": 0, "status": "completed"}
    settings = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    return {**response, **settings, "model": body["model"], "output": [item]}


def show(who: str, value: object) -> None:
    print(f"{who:<8} {json.dumps(value)}", file=sys.stderr)


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps((claude if self.path.endswith("/messages") else gpt)(body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None: ...


server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}"
os.environ |= {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none"}
os.environ |= {"OPENAI_BASE_URL": f"{address}/v1", "OPENAI_API_KEY": "none"}
sys.argv = [EXAMPLE, REQUEST]
runpy.run_path(str(Path(__file__).parent / EXAMPLE), run_name="__main__")
