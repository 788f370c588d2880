"""Renders servers, tools, search results and notices as text for a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from discovery_cli.output import Cell, Output
from discovery_engine._util.lazy_pattern import lazy_pattern
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
_ERROR = lazy_pattern(
    r"\s*(?:(?:Uncaught )?[\w.]*(?:[Ee]rror|Exception)\b.*:|npm (?:ERR!|error) (?!code |A comp| ))"
)
_PATH = "PATH is "  # the beginning of the detail for a missing program
_GOOD = {"idle", "ready", "starting", "pending"}


def server_row(output: Output, server: ServerReport, *, with_status: bool) -> Row:
    """Return the row of a server: a mark, its name, its number of tools, and its description.

    A problem takes the place of the description; with `with_status` the state has a column before.
    """
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
    """Return the row of a server with two more columns: the switch (on or off) and the state."""
    mark, name, tools, *rest = server_row(output, server, with_status=True)
    return [mark, name, tools, "on" if server.is_wanted else "off", *rest]


def long_server_row(output: Output, server: ServerReport) -> Row:
    """Return the row of a server with all columns, in the order of `LONG_COLUMNS`."""
    mark, name, tools, switch, state, about = wanted_server_row(output, server)
    details = [server.package or "-", server.source, ", ".join(server.tags) or "-"]
    dates = [_day(server.created_at), _day(server.updated_at)]
    return [mark, name, switch, state, tools, *details, *dates, about]


LONG_COLUMNS = (
    *("", "server", "wanted", "state", "tools", "package", "source", "tags", "added", "changed"),
    "",
)


def _day(at: float | None) -> str:
    """Format a Unix time as a local date (`2026-11-30`); None gives a dash."""
    return "-" if at is None else time.strftime("%Y-%m-%d", time.localtime(at))


def is_open(server: ServerReport) -> bool:
    """Return whether the server is still starting or waiting, and was never listed before."""
    return server.listed_at is None and server.state in {"starting", "pending"}


def short_detail(detail: str) -> str:
    """Return the owner's detail of a failure, or "" if it is a long `PATH`.

    `health SERVER` shows the `PATH`.
    """
    return "" if detail.startswith(_PATH) else detail


def with_last_line(reason: str, stderr: str) -> str:
    """Append the last line of the program's stderr to `reason`, if there are both.

    If there are errors, the last of them: Node.js and npm close with lines that say nothing.
    """
    lines = clean(stderr).strip().splitlines()
    last = next(filter(_ERROR.match, reversed(lines)), lines[-1]) if lines else ""
    return f"{reason}: {quoted(last.strip())}" if reason and last else reason


def last_lines(stderr: str) -> list[str]:
    """Return the last five lines of a program's stderr, safe for a terminal.

    `discovery health SERVER` shows all that is stored.
    """
    return block("\n".join(clean(stderr).splitlines()[-5:])) if stderr else []


def say_last_lines(output: Output, stderr: str) -> None:
    """Write the last lines of a failed program's stderr, below the line of its server."""
    if lines := last_lines(stderr):
        output.say("  stderr (last lines):")
    for line in lines:
        output.say(f"  {line}")


def tool_row(
    output: Output, entry: Entry, view: View, *, with_tags: bool = False, with_server: bool = False
) -> Row:
    """Return the row of a tool: a mark, its name, and its summary or why it is disabled.

    With `with_server` the name is `server:tool`; otherwise the tool's arguments follow it. With
    `with_tags` a column of tags comes before the summary.
    """
    name = entry.key.label if with_server else _call_text(entry.tool)
    row: Row = [output.mark(good=entry.verdict.enabled), Cell(name, "strong")]
    if with_tags:
        row.append(tag_text(entry))
    about = entry.tool.summary if entry.verdict.enabled else f"disabled: {_why(entry, view)}"
    return [*row, _summary(about)]


def _call_text(tool: Tool) -> str:
    """Return the tool with its argument names, such as `create_issue(title, labels?)`.

    At most six are named.
    """
    names = [f"{named(p.name)}{'' if p.required else '?'}" for p in tool.parameters]
    cut = [*names[:_MOST_ARGUMENTS], "…"] if len(names) > _MOST_ARGUMENTS else names
    return f"{named(tool.name)}({', '.join(cut)})"


def _why(entry: Entry, view: View) -> str:
    """Return why a tool is disabled, without the place of the rule, which would fill the line."""
    if entry.verdict.rule is None:
        return view.reason(entry)
    origin = view.settings.tool_rules[entry.verdict.rule].origin
    return view.reason(entry).replace(f" ({origin})", "", 1)


def hit_row(output: Output, hit: Hit) -> Row:
    """Return the row of a search result: a mark, the tool, and its tags and summary."""
    entry = hit.entry
    return [
        output.mark(good=entry.verdict.enabled),
        Cell(entry.key.label, "strong"),
        _summary(f"{tag_text(entry)} {entry.tool.summary}".strip()),
    ]


def offering_row(output: Output, entry: OfferingEntry, view: View) -> Row:
    """Return the row of a resource, template or prompt: its summary, or why it is disabled."""
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
    """Return the arguments of a prompt as a user types them, such as `code=… [style=…]`."""
    required = [f"{named(p.name)}=…" for p in entry.offering.parameters if p.required]
    optional = [f"[{named(p.name)}=…]" for p in entry.offering.parameters if not p.required]
    return " ".join([*required, *optional])


def explained_hit_row(output: Output, hit: Hit, *, is_match: bool) -> Row:
    """Return the row of a search result with its relevance, a ranking score and no probability.

    The mark is good only for a result that counts as a match.
    """
    relevance = Cell(f"{hit.relevance * 100:.0f}% relevance", to_the_right=True)
    mark, *rest = hit_row(output, hit)
    return [mark if is_match else output.mark(good=False), relevance, *rest]


def explanation_rows(explanation: HitExplanation) -> list[Row]:
    """Return a row for each word of the query, with its contribution in percent of a full match.

    Then come the nearest recorded request, and the words that the tool lacks.
    """
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
    """Write a line for each notice; servers with the same notice share one line.

    Notices about an unusable registry are left out: they were written when it was opened.
    """
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
    """Write why tools have no vectors, and the command that makes them; no-op if none lacks one."""
    if missing:
        output.say(f"note: {missing.message}; then `discovery refresh` makes what is missing")


def say_outages(output: Output, notices: Iterable[Notice]) -> None:
    """Write one line that names the servers missing from an answer, and the command that says why.

    At most five are named.
    """
    names = [notice.server for notice in notices if notice.kind == "unavailable" and notice.server]
    if len(names) == 1:
        output.say(f"note: {names[0]} is not available; `discovery health {names[0]}` explains")
    elif names:
        whose = f"{len(names)} servers are not available: {_first(names)}"
        output.say(f"note: {whose}; `discovery doctor` explains")


def say_refusals(output: Output, refusals: Iterable[UntrustedServerError]) -> None:
    """Write a line for each reason why servers must not be started, with its hint."""
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
    """Write how many tools of these servers are withheld or unusable, and what shows them."""
    for name in names:
        notices = view.list_tools(name, include_disabled=True).notices
        say_notices(output, [notice for notice in notices if notice.code in _HELD_BACK])


def to_owner(notice: Notice) -> str:
    """Return the text of a notice for the owner, which may name hidden tools and files."""
    if notice.code == "SERVER_STARTING":
        return _starting(notice)
    message = notice.to_owner or notice.message
    return plain_reason(notice.server, message) if notice.server else message


def _starting(notice: Notice) -> str:
    """Return a note about a server that was starting when this command stopped it.

    It names the command that waits for the server.
    """
    text = _with_progress(notice.message.partition(";")[0], notice.progress)
    return f"{text}; `discovery refresh {notice.server}` waits for it"


def starting_text(server: ServerReport) -> str:
    """Return for how many seconds a server has been starting, and its progress, if known."""
    if server.starting_for is None:
        return "starting"
    return _with_progress(f"starting, {int(server.starting_for)} s", server.progress)


def _with_progress(text: str, progress: str) -> str:
    return f"{text}, {quoted(progress)}" if progress else text


def tool_count(server: ServerReport) -> str:
    """Return the number of enabled, of all and of unusable tools, and of skills, in words.

    A server that was never listed gives a dash.
    """
    if server.listed_at is None and not server.tool_count:
        return "-"
    text = counted(server.tool_count, "tool")
    if server.enabled_count != server.tool_count:
        text = f"{server.enabled_count} of {text}"
    if server.skill_count:
        skills = counted(server.skill_count, "skill")
        text = f"{text}, {skills}" if server.tool_count else skills
    return text + (f", {len(server.dropped)} unusable" if server.dropped else "")
