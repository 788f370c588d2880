"""An MCP server over stdio with a little of everything that an agent meets, as a shop has it.

    python shop_server.py [FILE]

FILE contains the names of the tools that it has now, one on each line; without it, it has all.
It knows the handshake only, and no library, so that it starts at once.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]

# One red pixel; what looks at it more closely than its first bytes finds a whole image.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
PDF = "JVBERi0xLjQKJcOkw7zDtsOfCg=="
TEXT = {"type": "string"}


def tool(about: str, *required: str, **fields: Any) -> Message:
    properties = dict.fromkeys(required, TEXT)
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"description": about, "inputSchema": schema} | fields


TOOLS: dict[str, Message] = {
    "place_order": tool("Order a product from the warehouse.", "product")
    | {
        "outputSchema": {
            "type": "object",
            "properties": {"order": {"type": "integer"}, "product": TEXT},
            "required": ["order", "product"],
        },
    },
    "cancel_order": tool(
        "Cancel an order of a customer.", "order", annotations={"destructiveHint": True}
    ),
    "draw_chart": tool("Draw a chart of the revenue as a picture."),
    "print_invoice": tool("Print the invoice of an order as a PDF document.", "order"),
    "refund_payment": tool("Refund a payment; the bank refuses it."),
    "count_stock": tool("Count the stock of the warehouse, with progress."),
    "sign_contract": tool("Sign a contract, which needs the confirmation of the user."),
    "query_records": {
        "description": "Query the records of customers with a filter.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "$filter": TEXT,
                "$top": {"type": "integer"},
                "fields": {"type": "array"},
            },
            "anyOf": [{"required": ["$filter"]}, {"required": ["$top"]}],
        },
    },
    "meet_colleague": tool("Wait in the meeting room until a colleague is there, too.", "name"),
    "wait_forever": tool("Wait for a delivery that never comes."),
    "list_cancelled": tool("List the deliveries whose wait was cancelled."),
    "burn_down": tool("Burn the warehouse down."),
}


class Shop:
    def __init__(self, names: Path | None) -> None:
        self.names = names
        self.cancelled: list[Any] = []
        self.waiting: list[Message] = []
        self.asking: Message = {}

    def run(self) -> None:
        for line in sys.stdin:
            self.handle(json.loads(line))

    def handle(self, message: Message) -> None:
        match message:
            case {"id": "question", "result": result}:
                answer(self.asking, text(f"signed: {json.dumps(result)}"))
            case {"id": "question", "error": _}:
                answer(self.asking, {**text("nobody confirmed it"), "isError": True})
            case {"method": "notifications/cancelled", "params": {"requestId": request}}:
                self.cancelled.append(request)
            case {"method": "initialize"}:
                answer(message, GREETING)
            case {"method": "tools/list"}:
                answer(message, {"tools": [{"name": name, **TOOLS[name]} for name in self.listed]})
            case {"method": "tools/call", "params": {"name": name, **params}}:
                self.call(message, name, params.get("arguments") or {})
            case {"method": _, "id": _}:
                send({"id": message["id"], "error": {"code": -32601, "message": "not found"}})

    @property
    def listed(self) -> list[str]:
        return list(TOOLS) if self.names is None else self.names.read_text("utf-8").split()

    def call(self, message: Message, name: str, given: Message) -> None:
        match name:
            case "place_order":
                order = {"order": 7, "product": given["product"]}
                answer(message, {**text("Ordered."), "structuredContent": order})
            case "refund_payment":
                answer(message, {**text("The bank says no."), "isError": True})
            case "count_stock":
                self.count(message)
            case "sign_contract":
                self.asking = message
                send({"id": "question", "method": "elicitation/create", "params": QUESTION})
            case "meet_colleague":
                self.meet(message)
            case "wait_forever":
                self.tell(message, 0)
            case "list_cancelled":
                answer(message, text(json.dumps(self.cancelled)))
            case "burn_down":
                os._exit(7)
            case _:
                answer(message, {"content": MEDIA.get(name) or text(json.dumps(given))["content"]})

    def meet(self, message: Message) -> None:
        """Answer two calls, once both are there."""
        self.waiting.append(message)
        if len(self.waiting) == 2:
            for waiting in self.waiting:
                answer(waiting, text(f"met {waiting['params']['arguments']['name']}"))
            self.waiting = []

    def count(self, message: Message) -> None:
        for step in (1, 2, 3):
            self.tell(message, step)
        answer(message, text("300 pieces"))

    def tell(self, message: Message, step: int) -> None:
        """The progress of a call, if its client wants it."""
        token = (message["params"].get("_meta") or {}).get("progressToken")
        if token is not None:
            told = {"progressToken": token, "progress": step, "total": 3, "message": f"hall {step}"}
            send({"method": "notifications/progress", "params": told})


GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "shop", "version": "1"},
}
QUESTION = {
    "message": "Do you sign?",
    "requestedSchema": {"type": "object", "properties": {"yes": {"type": "boolean"}}},
}


MEDIA: dict[str, list[Message]] = {
    "draw_chart": [
        {"type": "text", "text": "The revenue:"},
        {"type": "image", "mimeType": "image/png", "data": PNG},
        {"type": "image", "mimeType": "image/png", "data": "bm8gaW1hZ2U="},  # it is none
    ],
    "print_invoice": [
        {
            "type": "resource",
            "resource": {"uri": "shop://invoice.pdf", "mimeType": "application/pdf", "blob": PDF},
        }
    ],
}


def text(value: str) -> Message:
    return {"content": [{"type": "text", "text": value}]}


def answer(message: Message, result: Message) -> None:
    send({"id": message["id"], "result": result})


def send(message: Message) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    Shop(Path(sys.argv[1]) if sys.argv[1:] else None).run()
