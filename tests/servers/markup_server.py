"""A small MCP server over stdio that has markup, scripts and hidden characters in every field.

    python markup_server.py WORLD.json

WORLD.json is what `world` makes. The tool `ask` asks a question, `fail` is refused, `wrong` is an
error of the tool itself, `progress` reports progress until a file is there; any other answers with
a block of every kind. Each call writes to stderr.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # an isolated interpreter does not look there

from fault_server import Message, answer, notify, refuse, write
from offering_server import OfferingServer

OUT = "http://elsewhere.example/x"
SCRIPT = "javascript:window.owned=1;alert(1)"
MARKUP = (
    '"\'><img src=x onerror="window.owned=1"><script>window.owned=1;alert(1)</script>'
    f'<svg onload=window.owned=1><a href="{SCRIPT}">here</a><iframe srcdoc="<script>top.owned=1'
    f'</script>"></iframe><img src="{OUT}.png"><style>@import "{OUT}.css"</style>'
    "{{constructor.constructor('window.owned=1')()}} `${window.owned=1}`"
)
HIDDEN = "\u202etxt.exe\u2066\u200b\u200d\u034f\U000e0041\u2028\x1b[31m"
PICTURE = (
    f'<svg xmlns="http://www.w3.org/2000/svg" onload="window.owned=1"><script>window.owned=1'
    f'</script><image href="{OUT}.svg"/></svg>'
)


def text(field: str) -> str:
    return f"{field} {MARKUP} {HIDDEN}"


def world() -> Message:
    """Tools, resources, templates and prompts, with texts in all of their fields."""
    name = f"odd{MARKUP[:60]}"
    icons = [{"src": SCRIPT, "mimeType": "image/svg+xml"}, {"src": f"{OUT}.ico"}]
    tools = [
        tool(one, icons) for one in ("plain", "ask", "fail", "wrong", "progress", name, "..", "a b")
    ]
    resource = {"name": text("name"), "title": text("title"), "description": text("about")}
    return {
        "tools": tools,
        "resources": [
            {"uri": uri, "mimeType": text("mime"), "icons": icons, **resource}
            for uri in (SCRIPT, f"{OUT}?{HIDDEN}", "data:text/html,<script>window.owned=1</script>")
        ],
        "templates": [{"uriTemplate": f"{SCRIPT}/{{part}}", "mimeType": text("mime"), **resource}],
        "prompts": [
            {
                "name": "ask",
                "title": text("title"),
                "description": text("about"),
                "arguments": [{"name": MARKUP[:40], "description": text("argument")}],
            }
        ],
        "instructions": text("instructions"),
    }


def tool(name: str, icons: Any) -> Message:
    choices = [text("one"), text("two")]
    constant = [{"const": 1, "title": text("title")}, {"const": 2, "title": SCRIPT}]
    properties = {
        "choice": {"enum": choices, "default": choices[0], "title": text("title")},
        "named": {"enum": [1, 2], "enumNames": choices},
        "either": {"oneOf": [{"type": "string", "title": text("a")}, {"type": "integer"}]},
        "constant": {"oneOf": constant},
        "several": {"type": "array", "uniqueItems": True, "items": {"enum": choices}},
        "text": {
            "type": "string",
            "default": text("default"),
            "examples": [text("example")],
            "pattern": ".*|<img src=x onerror=window.owned=1>",
            "description": text("about"),
        },
        "address": {"type": "string", "format": "uri", "default": SCRIPT},
        "file": {"type": "string", "contentEncoding": "base64", "contentMediaType": text("mime")},
        "fixed": {"const": text("fixed")},
        "any": {"patternProperties": {"^x": {}}, "default": {text("key"): text("value")}},
        MARKUP: {"type": "string", "title": text("title")},
        "__proto__": {"type": "string", "default": "polluted"},
        "constructor": {"type": "object", "properties": {"prototype": {"default": {"x": 1}}}},
        "dangerouslySetInnerHTML": {"type": "string", "default": MARKUP},
    }
    return {
        "name": name,
        "title": text("title"),
        "description": text("about"),
        "icons": icons,
        "annotations": {"title": text("title")},
        "inputSchema": {"type": "object", "title": text("title"), "properties": properties},
    }


def blocks() -> list[Any]:
    picture = base64.b64encode(PICTURE.encode()).decode()
    page = base64.b64encode(MARKUP.encode()).decode()
    kinds = ("image/svg+xml", "text/html", 'image/png"onload=window.owned=1', text("mime"))
    return [
        {"type": "text", "text": text("result")},
        {"type": "text", "text": {"toString": 1, "valueOf": 1}},
        {"type": "text", "text": [{"type": "img", "props": {"src": OUT}, "__k": None}]},
        *({"type": "image", "mimeType": kind, "data": picture} for kind in kinds),
        {"type": "image", "mimeType": "image/png", "data": f"{OUT}.png"},
        {"type": "image", "mimeType": "image/png", "data": picture},  # its bytes are none
        {"type": "audio", "mimeType": "text/html", "data": page},
        {"type": "resource_link", "uri": SCRIPT, "name": text("name"), "title": text("title")},
        {"type": "resource", "resource": {"uri": SCRIPT, "mimeType": "text/html", "blob": page}},
        {"type": "resource", "resource": {"uri": OUT, "text": text("contents")}},
        {"type": text("kind"), "dangerouslySetInnerHTML": {"__html": MARKUP}},
        {"type": "text", "text": json.dumps({"html": MARKUP, "hidden": HIDDEN})},
    ]


class MarkupServer(OfferingServer):
    def initialize(self, message: Message) -> None:
        information = {"name": text("name"), "title": text("title"), "version": text("version")}
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": self.capabilities() | {"logging": {}},
            "serverInfo": information | {"websiteUrl": SCRIPT, "icons": [{"src": SCRIPT}]},
            "instructions": self.world["instructions"],
        }
        answer(message, result)

    def tools_call(self, message: Message) -> None:
        os.write(2, text("stderr").encode() + b"\n")
        notify("notifications/message", {"level": "error", "logger": MARKUP, "data": text("log")})
        name = message["params"]["name"]
        if name == "fail":
            refuse(message, -32000, text("error"), {"html": MARKUP})
        elif name == "ask":
            properties = tool("", [])["inputSchema"]["properties"]
            form = {"type": "object", "properties": {"choice": properties["choice"]}}
            params = {"message": text("question"), "requestedSchema": form}
            line = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params}
            write(json.dumps(line).encode() + b"\n")
            self.until_answered()
            answer(message, {"content": blocks()})
        elif name == "progress":
            self.progress(message)
        else:
            structured = {MARKUP: HIDDEN, "__proto__": {"polluted": 1}}
            result = {"content": blocks(), "structuredContent": structured}
            answer(message, result | {"isError": name == "wrong"})

    def until_answered(self) -> None:
        count = len(self.answers)
        while len(self.answers) == count:
            self.handle(json.loads(sys.stdin.buffer.readline()))

    def progress(self, message: Message) -> None:
        token, step = message["params"]["_meta"]["progressToken"], 0
        while not Path(f"{self.mode}.done").exists():
            step += 1
            told = {"progressToken": token, "progress": step, "message": text("progress")}
            notify("notifications/progress", told)
            time.sleep(0.05)
        answer(message, {"content": []})

    def resources_read(self, message: Message) -> None:
        uri = message["params"]["uri"]
        page = base64.b64encode(MARKUP.encode()).decode()
        contents: list[Any] = [
            {"uri": uri, "mimeType": "text/html", "text": text("contents")},
            {"uri": uri, "mimeType": "text/html", "blob": page},
        ]
        answer(message, {"contents": contents})

    def prompts_get(self, message: Message) -> None:
        said = [{"role": text("role"), "content": block} for block in blocks()]
        answer(message, {"description": text("about"), "messages": said})


if __name__ == "__main__":
    MarkupServer(sys.argv[1], "legacy").run()
