"""A small MCP server over stdio with resources, templates and prompts, as a file has them.

    python offering_server.py WORLD.json [--era modern|legacy|both]

WORLD.json, read again for each request:

    {"tools": [...], "resources": [...], "templates": [...], "prompts": [...], "skills": [...],
     "capabilities": {...},              what is declared; by default what there is
     "pages": 2,                         items on a page
     "fails": ["prompts/list"],          methods that answer an error
     "completions": ["a"],               values that complete; by default what was asked
     "plain": true,                      no members that nobody knows in contents
     "asks": {"prompts/get": {...}},     the form that is wanted first, of the newer era
     "contents": {"file:///a": "text"},  other URIs are echoed
     "results": {"tools/call add": {}}}  by the method and the name or URI of a request

A call of the tool `notify` sends the notification that its arguments hold. What it was asked is
appended to WORLD.json.log, one JSON message a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # an isolated interpreter does not look there

from fault_server import Message, Server, answer, answer_text, notify, refuse

LISTS = {
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("templates", "resourceTemplates"),
    "prompts/list": ("prompts", "prompts"),
    "skills/list": ("skills", "skills"),
}
CAPABILITIES = {"tools": "tools", "resources": "resources", "templates": "resources"} | {
    "prompts": "prompts"
}


class OfferingServer(Server):
    listening: Message | None = None

    _written = ""
    _world: dict[str, Any]

    @property
    def world(self) -> dict[str, Any]:
        """Parsed when it has changed, so that each kind of request takes as long."""
        written = Path(self.mode).read_text("utf-8")
        if written != self._written:
            self._written, self._world = written, json.loads(written)
        return self._world

    def handle(self, message: Message) -> None:
        with Path(f"{self.mode}.log").open("a", encoding="utf-8") as log:
            log.write(json.dumps(message) + "\n")
        method = message.get("method", "")
        if "id" not in message:
            return
        if method in self.world.get("fails", ()):
            refuse(message, -32603, "it is broken")
        elif method in LISTS:
            self.list_page(message, *LISTS[method])
        elif (result := self.scripted(message)) is not None:
            answer(message, result)
        elif method in self.world.get("asks", ()):
            self.ask(message, self.world["asks"][method])
        elif own := getattr(self, method.replace("/", "_"), None):
            own(message)
        else:
            super().handle(message)

    def scripted(self, message: Message) -> Message | None:
        params = message.get("params", {})
        subject = params.get("name") or params.get("uri") or ""
        found: Message | None = self.world.get("results", {}).get(
            f"{message.get('method', '')} {subject}".strip()
        )
        return found

    def capabilities(self) -> Message:
        world = self.world
        declared = {
            capability: {"listChanged": True} for key, capability in CAPABILITIES.items()
            if key in world
        }  # fmt: skip
        if "resources" in declared:
            declared["resources"]["subscribe"] = True
        if "skills" in world:
            declared["extensions"] = {"io.modelcontextprotocol/skills": {}}
        found: Message = world.get("capabilities", declared)
        return found

    def server_discover(self, message: Message) -> None:
        if self.era == "legacy":
            refuse(message, -32601, "Method not found")
            return
        result = {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": self.capabilities(),
            "instructions": self.world.get("instructions", ""),
        }
        answer(message, result)

    def initialize(self, message: Message) -> None:
        if self.era == "modern":
            refuse(message, -32022, "Unsupported protocol version", {"supported": ["2026-07-28"]})
            return
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": self.capabilities(),
            "serverInfo": {"name": "offering", "version": "1"},
            "instructions": self.world.get("instructions", ""),
        }
        answer(message, result)

    def list_page(self, message: Message, key: str, member: str) -> None:
        if key not in self.world:
            refuse(message, -32601, "Method not found")
            return
        items, size = self.world[key], self.world.get("pages", 1000)
        start = int(message.get("params", {}).get("cursor", 0))
        more = {"nextCursor": str(start + size)} if start + size < len(items) else {}
        answer(message, {member: items[start : start + size], **more})

    def resources_read(self, message: Message) -> None:
        uri = message["params"]["uri"]
        contents = self.world.get("contents")
        if contents is not None and uri not in contents:
            refuse(message, -32002, "Resource not found", {"uri": uri})
            return
        text = contents[uri] if contents else uri
        one = {"uri": uri, "mimeType": "text/plain", "text": text}
        if self.world.get("plain"):
            answer(message, {"contents": [one]})
        else:
            more = {"vendor": {"kept": 1}}
            answer(message, {"contents": [one | more], "vendor": [1.0, None]})

    def ask(self, message: Message, schema: Message) -> None:
        """Want a form first; then what came back is the text of the result."""
        given = message["params"].get("inputResponses")
        if given is None:
            form = {"message": "Which part?", "requestedSchema": schema}
            wanted = {"part": {"method": "elicitation/create", "params": form}}
            answer(message, {"resultType": "input_required", "inputRequests": wanted})
            return
        text = json.dumps(given["part"])
        said = {"role": "user", "content": {"type": "text", "text": text}}
        contents = [{"uri": message["params"].get("uri"), "text": text}]
        answer(message, {"contents": contents, "messages": [said]})

    def prompts_get(self, message: Message) -> None:
        text = json.dumps(message["params"].get("arguments", {}))
        content = {"type": "text", "text": text, "vendor": 1}
        answer(message, {"messages": [{"role": "user", "content": content}], "vendor": {"a": []}})

    def completion_complete(self, message: Message) -> None:
        params = {key: value for key, value in message["params"].items() if key != "_meta"}
        values = self.world.get("completions", [json.dumps(params, sort_keys=True)])
        completion = {"values": values, "total": len(values), "hasMore": False}
        answer(message, {"completion": completion})

    def resources_subscribe(self, message: Message) -> None:
        answer(message, {})

    def resources_unsubscribe(self, message: Message) -> None:
        answer(message, {})

    def subscriptions_listen(self, message: Message) -> None:
        notify(
            "notifications/subscriptions/acknowledged",
            {
                "_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]},
                "notifications": message["params"]["notifications"],
            },
        )

    def tools_call(self, message: Message) -> None:
        arguments = message["params"].get("arguments", {})
        if message["params"]["name"] == "notify":
            notify(arguments["method"], arguments.get("params", {}))
        answer_text(message, json.dumps(arguments))


if __name__ == "__main__":
    era = sys.argv[3] if len(sys.argv) > 3 else "both"
    OfferingServer(sys.argv[1], era).run()
