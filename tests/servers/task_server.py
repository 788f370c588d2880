"""A small MCP server over stdio whose calls become tasks, well or badly.

    python task_server.py MODE [--era modern|legacy|both]

A task goes one step further each time that it is asked for, so that nothing depends on time. The
tools `log` and `echo` answer at once: `log` with the requests about tasks so far.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # an isolated interpreter does not look there

from fault_server import Message, Server, answer, answer_text, content, refuse, serve, tool, write

TASKS = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CREATED = {
    "createdAt": "2026-11-22T10:00:00Z",
    "lastUpdatedAt": "2026-11-22T10:00:01Z",
    "ttlMs": 600_000,
    "pollIntervalMs": 1,
}
FORM = {
    "method": "elicitation/create",
    "params": {
        "message": "Delete it?",
        "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean"}}},
    },
}
MODES = {
    "works": "three steps, then the result",
    "endless": "works without end",
    "slow_polls": "as `endless`, and wishes to be asked once an hour",
    "asks": "asks one question, then answers with what came back",
    "asks_two": "asks two questions at once",
    "asks_for_ever": "asks a new question whenever one is answered",
    "keeps_asking": "shows a question for two more steps after it was answered",
    "strange_question": "asks what is none of MCP",
    "fails": "the task fails with a JSON-RPC error",
    "tool_error": "the task completes with the tool's own failure",
    "cancelled": "the server cancels the task",
    "lost": "the server forgets the task",
    "dies": "the server exits when it is asked for the task",
    "hiccups": "two requests in a row for the task are refused with an internal error",
    "breaks": "every request for the task is refused with an internal error",
    "silent": "no request for the task is answered",
    "other_id": "reports another task than the one asked for",
    "no_id": "the handle has no id",
    "strange_status": "the status is a word of its own",
    "strange_result": "the result of the completed task is a list",
    "nested_task": "the result of the completed task is a task",
    "no_error": "the failed task has no error",
    "huge_interval": "the interval is an integer of 400 digits",
    "undeclared": "returns a task although it does not declare the extension",
    "deaf_to_cancel": "as `endless`, and leaves `tasks/cancel` unanswered",
    "progress": "reports progress of the request, then becomes a task",
    "input_first": "wants input before it becomes a task",
    "long": "the result has 100,000 characters",
    "structured": "the result has two rows",
}
WITHOUT_EXTENSION = ("undeclared",)
LONG = ("endless", "slow_polls", "deaf_to_cancel", "breaks", "silent")


class TaskServer(Server):
    def __init__(self, mode: str, era: str) -> None:
        super().__init__(mode, era)
        self.tasks = 0
        self.step: dict[str, int] = {}
        self.given: dict[str, Any] = {}
        self.log: list[Any] = []
        self.declared: list[Any] = []

    def handle(self, message: Message) -> None:
        method = message.get("method", "")
        if method.startswith("tasks/"):
            self.on_task(message, method)
        else:
            super().handle(message)

    def list_tools(self, message: Message) -> None:
        tools = [tool(name) for name in ("work", "echo", "log", "declared")]
        answer(message, {"tools": tools, "ttlMs": 1000, "cacheScope": "private"})

    def discover(self, message: Message) -> None:
        if self.era == "legacy":
            super().discover(message)
            return
        extensions = {} if self.mode in WITHOUT_EXTENSION else {TASKS: {}}
        answer(
            message,
            {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "extensions": extensions},
                "ttlMs": 0,
                "cacheScope": "private",
            },
        )

    def call(self, message: Message) -> None:
        params = message["params"]
        if params["name"] == "echo":
            answer_text(message, json.dumps(params.get("arguments")))
        elif params["name"] == "log":
            answer_text(message, json.dumps(self.log))
        elif params["name"] == "declared":
            answer_text(message, json.dumps(params.get("_meta", {}).get(CAPABILITIES)))
        elif self.mode == "input_first" and "inputResponses" not in params:
            answer(message, {"resultType": "input_required", "inputRequests": {"first": FORM}})
        else:
            if self.mode == "progress":
                token = params["_meta"]["progressToken"]
                told = {"progressToken": token, "progress": 41.5, "total": 100}
                method = "notifications/progress"
                write(json.dumps({"jsonrpc": "2.0", "method": method, "params": told}).encode())
                write(b"\n")
            self.tasks += 1
            name = f"task-{self.tasks}"
            self.step[name] = 0
            self.given[name] = params.get("inputResponses", {})
            answer(message, self.handle_of(name))

    def handle_of(self, name: str) -> Message:
        status = "completed" if self.mode == "over_at_once" else "working"
        made = {"resultType": "task", "taskId": name, "status": status, **CREATED}
        if self.mode == "no_id":
            del made["taskId"]
        return made

    def on_task(self, message: Message, method: str) -> None:
        params = message["params"]
        name = params["taskId"]
        self.log.append([method, name])
        declared = params["_meta"][CAPABILITIES].get("extensions", {})
        if TASKS not in declared:
            refuse(message, -32021, "Missing required client capability")
        elif name not in self.step:
            refuse(message, -32602, "Task not found")
        elif method == "tasks/cancel":
            if self.mode != "deaf_to_cancel":
                answer(message, {"resultType": "complete"})
        elif method == "tasks/update":
            self.given[name] |= params["inputResponses"]
            answer(message, {"resultType": "complete"})
        else:
            self.get(message, name)

    def get(self, message: Message, name: str) -> None:
        self.step[name] += 1
        step = self.step[name]
        state: Message = {"resultType": "complete", "taskId": name, **CREATED}
        if special := getattr(self, f"get_{self.mode}", None):
            special(message, name, step, state)
        elif self.mode in LONG or step < 3:
            answer(message, state | {"status": "working", "statusMessage": f"step {step}"})
        else:
            answer(message, self.completed(state, name))

    def completed(self, state: Message, name: str) -> Message:
        given = json.dumps(self.given[name], sort_keys=True)
        return state | {"status": "completed", "result": content(given)}

    def asking(self, message: Message, state: Message, *keys: str) -> None:
        requests = dict.fromkeys(keys, FORM)
        answer(message, state | {"status": "input_required", "inputRequests": requests})

    def get_slow_polls(self, message: Message, name: str, step: int, state: Message) -> None:
        answer(message, state | {"status": "working", "pollIntervalMs": 3_600_000})

    def get_asks(self, message: Message, name: str, step: int, state: Message) -> None:
        if "sure" in self.given[name]:
            answer(message, self.completed(state, name))
        else:
            self.asking(message, state, "sure")

    def get_asks_two(self, message: Message, name: str, step: int, state: Message) -> None:
        open_ = [key for key in ("one", "two") if key not in self.given[name]]
        if open_:
            self.asking(message, state, *open_)
        else:
            answer(message, self.completed(state, name))

    def get_asks_for_ever(self, message: Message, name: str, step: int, state: Message) -> None:
        self.asking(message, state, *(f"q{step}-{number}" for number in range(40)))

    def get_keeps_asking(self, message: Message, name: str, step: int, state: Message) -> None:
        if step < 4:
            self.asking(message, state, "sure")
        else:
            answer(message, self.completed(state, name))

    def get_strange_question(self, message: Message, name: str, step: int, state: Message) -> None:
        requests = {"odd": {"method": "shell/run", "params": {}}}
        answer(message, state | {"status": "input_required", "inputRequests": requests})

    def get_fails(self, message: Message, name: str, step: int, state: Message) -> None:
        error = {"code": -32603, "message": "no quota left"}
        answer(message, state | {"status": "failed", "error": error})

    def get_long(self, message: Message, name: str, step: int, state: Message) -> None:
        text = "\n".join(f"line {number}" for number in range(10_000))
        answer(message, state | {"status": "completed", "result": content(text)})

    def get_structured(self, message: Message, name: str, step: int, state: Message) -> None:
        rows = [{"name": "first"}, {"name": "second"}]
        result = content(json.dumps({"rows": rows})) | {"structuredContent": {"rows": rows}}
        answer(message, state | {"status": "completed", "result": result})

    def get_no_error(self, message: Message, name: str, step: int, state: Message) -> None:
        answer(message, state | {"status": "failed"})

    def get_tool_error(self, message: Message, name: str, step: int, state: Message) -> None:
        result = content("it did not work") | {"isError": True}
        answer(message, state | {"status": "completed", "result": result})

    def get_cancelled(self, message: Message, name: str, step: int, state: Message) -> None:
        answer(message, state | {"status": "cancelled", "statusMessage": "the night shift ended"})

    def get_lost(self, message: Message, name: str, step: int, state: Message) -> None:
        refuse(message, -32602, "Task not found")

    def get_dies(self, message: Message, name: str, step: int, state: Message) -> None:
        os._exit(3)

    def get_hiccups(self, message: Message, name: str, step: int, state: Message) -> None:
        if step in {1, 2, 4, 5}:
            refuse(message, -32603, "try again")
        elif step < 7:
            answer(message, state | {"status": "working"})
        else:
            answer(message, self.completed(state, name))

    def get_breaks(self, message: Message, name: str, step: int, state: Message) -> None:
        refuse(message, -32603, "try again")

    def get_silent(self, message: Message, name: str, step: int, state: Message) -> None:
        pass

    def get_other_id(self, message: Message, name: str, step: int, state: Message) -> None:
        answer(message, state | {"status": "working", "taskId": "task-of-another"})

    def get_strange_status(self, message: Message, name: str, step: int, state: Message) -> None:
        answer(message, state | {"status": "meditating"})

    def get_strange_result(self, message: Message, name: str, step: int, state: Message) -> None:
        answer(message, state | {"status": "completed", "result": ["done"]})

    def get_nested_task(self, message: Message, name: str, step: int, state: Message) -> None:
        result = {"resultType": "task", "taskId": "inner", "status": "working", **CREATED}
        answer(message, state | {"status": "completed", "result": result})

    def get_huge_interval(self, message: Message, name: str, step: int, state: Message) -> None:
        if step < 2:
            answer(message, state | {"status": "working", "pollIntervalMs": 10**400})
        else:
            answer(message, self.completed(state, name))


if __name__ == "__main__":
    serve(TaskServer, MODES)
