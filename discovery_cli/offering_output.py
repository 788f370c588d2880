"""What `resources`, `prompts` and `search` show of resources, templates and prompts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from discovery_cli.exit_codes import ExitCode
from discovery_cli.options import in_view
from discovery_cli.output import Cell, Output
from discovery_cli.rendering import say_notices
from discovery_cli.targets import exit_code_of_server, one_server, server_named
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import clean, named, one_line
from discovery_engine.agent.content import block_text
from discovery_engine.engine.json_forms.notice_form import notice_forms
from discovery_engine.engine.json_forms.offering_form import offering_form
from discovery_engine.tools.offering import OfferingKind

if TYPE_CHECKING:
    from discovery_cli.invocation import Invocation
    from discovery_cli.rendering import Row
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import OfferingEntry
    from discovery_engine.view.view import View


def server_first(
    invocation: Invocation, words: tuple[str, ...]
) -> tuple[str | None, tuple[str, ...]]:
    """The server that was named, if any, and the words after it."""
    if words and server_named(invocation.known(), words[0]):
        return words[0], words[1:]
    return None, words


def show_offerings(
    invocation: Invocation,
    kinds: Mapping[str, OfferingKind],
    server: str | None,
    view_name: str | None,
    *,
    include_disabled: bool,
) -> ExitCode:
    """List offerings of some kinds, each by its key in JSON, one kind below the other."""
    output = invocation.output
    view = in_view(invocation.view(one_server(server) if server else None), view_name)
    lists = {
        key: view.list_offerings(kind, server, include_disabled=include_disabled)
        for key, kind in kinds.items()
    }
    notices = tuple(dict.fromkeys(notice for page in lists.values() for notice in page.notices))
    if output.as_json:
        forms = {key: [offering_form(e, view) for e in page.entries] for key, page in lists.items()}
        output.answer({**forms, "notices": notice_forms(notices)})
    else:
        entries = [entry for page in lists.values() for entry in page.entries]
        output.table([offering_row(output, entry, view) for entry in entries])
        say_notices(output, notices)
    _say_unlisted(output, view, set(kinds.values()))
    counts = [counted(len(page.entries), key[:-1]) for key, page in lists.items()]
    output.say(", ".join(counts))
    return exit_code_of_server(view, server)


def _say_unlisted(output: Output, view: View, kinds: Collection[OfferingKind]) -> None:
    """A note for each server of which these could not be listed."""
    for part in view.catalog.parts.values():
        for kind, reason in part.unlisted.items():
            if OfferingKind(kind) in kinds:
                noun = OfferingKind(kind).label
                text = f"the {noun}s of {part.server} could not be listed: {one_line(reason)}"
                output.say(f"note: {text}; shown are the last known ones")


def signature(entry: OfferingEntry) -> str:
    """For instance `code=… [style=…]`: the arguments of a prompt as they are typed."""
    required = [f"{named(p.name)}=…" for p in entry.offering.parameters if p.required]
    optional = [f"[{named(p.name)}=…]" for p in entry.offering.parameters if not p.required]
    return " ".join([*required, *optional])


def show_contents(output: Output, result: JSONObject) -> None:
    """The contents of a resource: text as it is, other content by its size."""
    for content in result["contents"]:
        output.text(block_text({"type": "resource", "resource": content}))


def show_messages(output: Output, result: JSONObject) -> None:
    """The messages of a prompt, each below its role."""
    for message in result["messages"]:
        output.text(f"{message['role']}:")
        output.text(block_text(message["content"]))


def offering_row(output: Output, entry: OfferingEntry, view: View) -> Row:
    offering = entry.offering
    address = clean(view.offerings.address(offering), newlines=False)
    if not entry.is_visible:
        about = f"disabled: {view.reason(entry)}"
    elif offering.kind is OfferingKind.PROMPT:
        about = f"{signature(entry)}  {offering.summary}".strip()
    else:
        about = f"{one_line(offering.name)}  {offering.summary}".strip()
    mark = output.mark(good=entry.is_visible)
    return [mark, Cell(address, "strong"), Cell(about, "faint", is_summary=True)]
