"""A small MCP server for the demo, with invented tools that change nothing.

It uses only the standard library: `python demo_server.py calendar`.
"""

import json
import re
import sys
from typing import Any

_SERVERS = {
    "calendar": "Events, meetings and rooms",
    "files": "Files and folders",
    "issues": "Bugs and wishes of projects",
}
_TOOLS = {
    "calendar": """
        list_events(day) Show the events of a day. | 09:30 Standup\n12:30 Lunch with Ada
        create_event(title, start, guests?) Add an event or meeting. | Added {title} at {start}.
        move_event(event, start) Move an event to another time. | Moved {event} to {start}.
        cancel_event(event) Cancel an event and tell its guests. | Cancelled {event}.
        delete_calendar(calendar) Delete a calendar with all its events. | Deleted {calendar}.
        find_free_time(guests, minutes) Find when all guests are free. | Tuesday 14:00
        list_rooms(seats?) List meeting rooms. | Lovelace, 8 seats
        book_room(room, start) Book a meeting room. | Booked {room} at {start}.
        accept_invitation(event) Accept an invitation to an event. | Accepted {event}.
        share_calendar(calendar, person) Share a calendar with a person. | Shared {calendar}.""",
    "files": """
        list_folder(path) List the files of a folder. | notes.txt\nreport.pdf
        read_file(path) Read the text of a file. | Call Ada about the report.
        write_file(path, text) Write text into a file. | Wrote {path}.
        delete_file(path) Delete a file for ever. | Deleted {path}.
        move_file(path, target) Move or rename a file. | Moved {path} to {target}.
        copy_file(path, target) Copy a file. | Copied {path} to {target}.
        find_files(pattern) Find files by their names. | notes.txt
        search_text(query) Find files by their text. | notes.txt: the report
        file_info(path) Show the size and date of a file. | {path}: 2 kB, yesterday
        zip_files(pattern, target) Pack files into an archive. | Packed into {target}.""",
    "issues": """
        list_issues(project, label?) List the open issues of a project. | 7 Search is slow
        create_issue(project, title, text?) Report a bug or a wish. | Created 8: {title}
        comment_issue(issue, text) Comment on an issue. | Commented on {issue}.
        close_issue(issue) Close an issue. | Closed {issue}.
        assign_issue(issue, person) Assign an issue to a person. | Assigned {issue} to {person}.
        label_issue(issue, label) Add a label to an issue. | Labelled {issue}.
        delete_project(project) Delete a project with all its issues. | Deleted {project}.
        list_projects() List the projects. | website
        search_issues(query) Find issues by words. | 7 Search is slow
        list_milestones(project) List the milestones of a project. | 1.0, due in May""",
}
_ARGUMENTS = {
    "calendar": "The name of the calendar, for instance Work",
    "day": "The day, as 2026-11-30, or today",
    "event": "The title or the number of the event",
    "guests": "The names of the guests, with commas between them",
    "issue": "The number of the issue",
    "label": "The label, for instance bug",
    "minutes": "How long it takes, in minutes",
    "path": "The path of the file or folder, from the home folder",
    "pattern": "The names, for instance *.txt",
    "person": "The name of the person",
    "project": "The name of the project",
    "query": "The words to look for",
    "room": "The name of the room",
    "seats": "How many seats it has at least",
    "start": "When it starts, as 2026-11-30 12:30, or 12:30 for today",
    "target": "The path of the new file",
    "text": "The text, in Markdown",
    "title": "A short title",
}
_LINE = r"(\w+)\((.*?)\) (.*?) \| (.*)"


def demo_servers() -> dict[str, dict[str, Any]]:
    """Return the entries of the demo's servers by name, as in `servers` of `discovery.yaml`."""
    return {
        name: {"command": sys.executable, "args": [__file__, name], "description": about}
        for name, about in _SERVERS.items()
    }


def main(name: str) -> None:
    """Answer requests from stdin until it ends; `name` selects the tools."""
    rows = [re.fullmatch(_LINE, line.strip().replace("\n", "\\n")) for line in _lines(name)]
    tools = {row[1]: row for row in rows if row}
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            message = {"jsonrpc": "2.0", "id": request["id"], **_answer(name, tools, request)}
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()


def _lines(name: str) -> list[str]:
    return re.split(r"\n        ", _TOOLS[name].removeprefix("\n        "))


def _answer(name: str, tools: "dict[str, re.Match[str]]", request: Any) -> dict[str, Any]:
    params = request.get("params") or {}
    match request["method"]:
        case "initialize":
            info = {"name": name, "version": "1"}
            version = params.get("protocolVersion", "2025-06-18")
            return {
                "result": {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
            }
        case "tools/list":
            return {"result": {"tools": list(map(_definition, tools.values()))}}
        case "tools/call" if params.get("name") in tools:
            answer = tools[params["name"]][4].replace("\\n", "\n")
            text = answer.format_map(params.get("arguments") or {})
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case "ping":
            return {"result": {}}
    return {"error": {"code": -32601, "message": "there is no such method"}}


def _definition(row: re.Match[str]) -> dict[str, Any]:
    names = [name for name in row[2].split(", ") if name]
    properties = {
        name.rstrip("?"): {"type": "string", "description": _ARGUMENTS[name.rstrip("?")]}
        for name in names
    }
    needed = [name for name in names if not name.endswith("?")]
    schema = {"type": "object", "properties": properties, "required": needed}
    hints = {"readOnlyHint": row[1].startswith(("list", "find", "read", "search"))}
    return {"name": row[1], "description": row[3], "inputSchema": schema, "annotations": hints}


if __name__ == "__main__":
    main(sys.argv[1])
