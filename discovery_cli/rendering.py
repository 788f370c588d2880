"""Servers and tools as rows and paragraphs for people."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from discovery_cli.output import Cell, Output
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import block, clean, named, one_line, quoted
from discovery_engine.errors import plain_reason
from discovery_engine.tools.offering import OfferingKind

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry, OfferingEntry
    from discovery_engine.errors import UntrustedServerError
    from discovery_engine.search.ranking.hit_explanation import HitExplanation
    from discovery_engine.search.ranking.relevance import Hit
    from discovery_engine.tools.model import Tool
    from discovery_engine.view.notices import Notice
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View

Row = list["Cell | str"]

_REPORTED = {"REGISTRY_LOST", "REGISTRY_UNAVAILABLE"}  # when the registry is opened
_HELD_BACK = {"TOOL_WITHHELD", "TOOL_UNUSABLE"}
_MOST_ARGUMENTS = 6  # that a row names
_MAX_LISTED_SERVERS = 5  # servers that a line names before it counts the others
_PATH = "PATH is "  # the beginning of the detail for a missing program
_GOOD = {"idle", "ready", "starting", "pending"}


def server_row(output: Output, server: ServerReport, *, with_status: bool) -> Row:
    """A mark, the name, the number of tools, and its purpose or its problem."""
    is_good = server.state in _GOOD and not server.has_problem
    status = starting_text(server) if server.state == "starting" else str(server.state)
    mark = output.open_mark() if is_open(server) else output.mark(good=is_good)
    row: Row = [mark, Cell(server.name, "strong"), tool_count(server)]
    if with_status:
        reason = server.reason
        if server.state == "disabled":
            reason = server.detail or reason
        return [*row, status, _summary(reason or server.description)]
    is_told = server.state in _GOOD and not is_open(server)
    return [*row, _summary(server.description if is_told else status)]


def wanted_server_row(output: Output, server: ServerReport) -> Row:
    """With the state, and whether the server is wanted in the column before it."""
    mark, name, tools, *rest = server_row(output, server, with_status=True)
    return [mark, name, tools, "on" if server.is_wanted else "off", *rest]


def long_server_row(output: Output, server: ServerReport) -> Row:
    """All columns of a server, in the order of `LONG_COLUMNS`."""
    mark, name, tools, switch, state, about = wanted_server_row(output, server)
    details = [server.package or "-", server.source, ", ".join(server.tags) or "-"]
    dates = [_day(server.created_at), _day(server.updated_at)]
    return [mark, name, switch, state, tools, *details, *dates, about]


LONG_COLUMNS = (
    *("", "server", "wanted", "state", "tools", "package", "source", "tags", "added", "changed"),
    "",
)


def _day(at: float | None) -> str:
    """The day of a Unix time, in the person's own time zone; a dash if there is none."""
    return "-" if at is None else time.strftime("%Y-%m-%d", time.localtime(at))


def is_open(server: ServerReport) -> bool:
    """Return whether the state of the server is not known yet."""
    return server.listed_at is None and server.state in {"starting", "pending"}


def short_detail(detail: str) -> str:
    """The detail for the owner, without a long `PATH`, which `health SERVER` shows."""
    return "" if detail.startswith(_PATH) else detail


def with_last_line(reason: str, stderr: str) -> str:
    """A reason with the last line of the program's stderr."""
    lines = clean(stderr).strip().splitlines()
    return f"{reason}: {quoted(lines[-1])}" if reason and lines else reason


def last_lines(stderr: str, most: int = 5) -> list[str]:
    """The last lines of a program's stderr; `discovery health SERVER` shows all of it."""
    return block("\n".join(clean(stderr).splitlines()[-most:])) if stderr else []


def say_last_lines(output: Output, stderr: str) -> None:
    """Write the last lines of a failed program's stderr below its server."""
    if lines := last_lines(stderr):
        output.say("  stderr (last lines):")
    for line in lines:
        output.say(f"  {line}")


def tool_row(
    output: Output,
    entry: Entry,
    view: View,
    *,
    with_tags: bool = False,
    with_server: bool = False,
) -> Row:
    """A mark, the name, perhaps tags, and its summary or why it is disabled.

    With the server before the name; else with the arguments behind it.
    """
    name = entry.key.label if with_server else _call_text(entry.tool)
    row: Row = [output.mark(good=entry.verdict.enabled), Cell(name, "strong")]
    if with_tags:
        row.append(tag_text(entry))
    about = entry.tool.summary if entry.verdict.enabled else f"disabled: {_why(entry, view)}"
    return [*row, _summary(about)]


def _call_text(tool: Tool) -> str:
    """For instance `create_issue(title, labels?)`; of many arguments the first ones."""
    names = [f"{named(p.name)}{'' if p.required else '?'}" for p in tool.parameters]
    cut = [*names[:_MOST_ARGUMENTS], "…"] if len(names) > _MOST_ARGUMENTS else names
    return f"{named(tool.name)}({', '.join(cut)})"


def _why(entry: Entry, view: View) -> str:
    """Why a tool is disabled, without the rule's path, which would fill the line."""
    if entry.verdict.rule is None:
        return view.reason(entry)
    origin = view.settings.tool_rules[entry.verdict.rule].origin
    return view.reason(entry).replace(f" ({origin})", "", 1)


def hit_row(output: Output, hit: Hit) -> Row:
    """The tool, its tags and its summary."""
    entry = hit.entry
    return [
        output.mark(good=entry.verdict.enabled),
        Cell(entry.key.label, "strong"),
        _summary(f"{tag_text(entry)} {entry.tool.summary}".strip()),
    ]


def offering_row(output: Output, entry: OfferingEntry, view: View) -> Row:
    """A resource, template or prompt, with its summary or why it is disabled."""
    offering = entry.offering
    if not entry.is_visible:
        about = f"disabled: {view.reason(entry)}"
    elif offering.kind is OfferingKind.PROMPT:
        about = f"{prompt_signature(entry)}  {offering.summary}".strip()
    else:
        about = f"{one_line(offering.name)}  {offering.summary}".strip()
    address = clean(view.offerings.address(offering), newlines=False)
    return [output.mark(good=entry.is_visible), Cell(address, "strong"), _summary(about)]


def prompt_signature(entry: OfferingEntry) -> str:
    """For instance `code=… [style=…]`: the arguments of a prompt as they are typed."""
    required = [f"{named(p.name)}=…" for p in entry.offering.parameters if p.required]
    optional = [f"[{named(p.name)}=…]" for p in entry.offering.parameters if not p.required]
    return " ".join([*required, *optional])


def explained_hit_row(output: Output, hit: Hit, *, is_match: bool) -> Row:
    """The same with its relevance, a score for the order (not a probability)."""
    relevance = Cell(f"{hit.relevance * 100:.0f}% relevance", to_the_right=True)
    mark, *rest = hit_row(output, hit)
    return [mark if is_match else output.mark(good=False), relevance, *rest]


def explanation_rows(explanation: HitExplanation) -> list[Row]:
    """The contribution of each word of the query, in percent of a full match; then the others."""
    rows: list[Row] = [
        [Cell(f"{share.adds * 100:+.1f}%", to_the_right=True), Cell(str(share), "faint")]
        for share in explanation.shares
    ]
    if explanation.request:
        text = f"of the requests for it, the nearest is {explanation.request!r}"
        rows.append([Cell("", to_the_right=True), Cell(text, "faint")])
    if explanation.uncovered:
        missing = ", ".join(map(repr, explanation.uncovered))
        rows.append([Cell("-", to_the_right=True), Cell(f"it has no word for {missing}", "faint")])
    return rows


def tag_text(entry: Entry) -> str:
    return f"[{', '.join(map(named, entry.verdict.tags))}]" if entry.verdict.tags else ""


def _summary(text: str) -> Cell:
    return Cell(text, "faint", is_summary=True)


def say_notices(output: Output, notices: Iterable[Notice]) -> None:
    """A line for each notice; servers of which the same is said share one."""
    servers: dict[str, list[str]] = {}
    for notice in notices:
        if notice.code in _REPORTED:
            continue
        text = to_owner(notice)
        about = f"{notice.server}: "
        is_about = bool(notice.server) and text.startswith(about)
        sharing = servers.setdefault(text.removeprefix(about) if is_about else text, [])
        if is_about:
            sharing.append(str(notice.server))
    for text, names in servers.items():
        output.say(f"note: {', '.join(names)}{': ' if names else ''}{text}")


def say_not_embedded(output: Output, missing: Notice | None) -> None:
    """Why tools have no vectors, and what makes them."""
    if missing:
        output.say(f"note: {missing.message}; then `discovery refresh` makes what is missing")


def say_outages(output: Output, notices: Iterable[Notice]) -> None:
    """One line with the servers that are missing from an answer; `health` shows why."""
    names = [notice.server for notice in notices if notice.kind == "unavailable" and notice.server]
    if len(names) == 1:
        output.say(f"note: {names[0]} is not available; `discovery health {names[0]}` explains")
    elif names:
        whose = f"{len(names)} servers are not available: {_first(names)}"
        output.say(f"note: {whose}; `discovery doctor` explains")


def say_refusals(output: Output, refusals: Iterable[UntrustedServerError]) -> None:
    """One line for each reason why servers must not be started, with what to do about it."""
    servers: dict[tuple[str, str], list[str]] = {}
    for refused in refusals:
        servers.setdefault((refused.reason, refused.hint), []).append(named(refused.server))
    for (reason, hint), names in servers.items():
        output.say(f"note: {_first(names)}: {reason} ({hint})")


def _first(names: Sequence[str]) -> str:
    more = (
        f" and {len(names) - _MAX_LISTED_SERVERS} more" if len(names) > _MAX_LISTED_SERVERS else ""
    )
    return ", ".join(names[:_MAX_LISTED_SERVERS]) + more


def say_held_back(output: Output, view: View, names: Iterable[str]) -> None:
    """The numbers of withheld and unusable tools of these servers, and what shows them."""
    for name in names:
        notices = view.list_tools(name, include_disabled=True).notices
        say_notices(output, [notice for notice in notices if notice.code in _HELD_BACK])


def to_owner(notice: Notice) -> str:
    """The text of a notice for the owner, which may name hidden tools and files."""
    if notice.code == "SERVER_STARTING":
        return _starting(notice)
    message = notice.to_owner or notice.message
    return plain_reason(notice.server, message) if notice.server else message


def _starting(notice: Notice) -> str:
    """A note on a starting server, and the command that waits for it: this run has ended it."""
    text = _with_progress(notice.message.partition(";")[0], notice.progress)
    return f"{text}; `discovery refresh {notice.server}` waits for it"


def starting_text(server: ServerReport) -> str:
    """How long a server has been starting, and the last line of its stderr."""
    if server.starting_for is None:
        return "starting"
    return _with_progress(f"starting, {int(server.starting_for)} s", server.progress)


def _with_progress(text: str, progress: str) -> str:
    return f"{text}, {quoted(progress)}" if progress else text


def tool_count(server: ServerReport) -> str:
    """The number of usable tools and of all; a dash if the server was never listed."""
    if server.listed_at is None and not server.tool_count:
        return "-"
    text = counted(server.tool_count, "tool")
    if server.enabled_count != server.tool_count:
        text = f"{server.enabled_count} of {text}"
    return text + (f", {len(server.dropped)} unusable" if server.dropped else "")
