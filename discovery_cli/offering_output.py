"""Resources, resource templates and prompts for people and scripts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from discovery_cli.output import Cell, Output
from discovery_cli.rendering import say_notices
from discovery_engine._util.text import clean, named, one_line
from discovery_engine.agent.content import block_text
from discovery_engine.json_forms.notice_form import notice_forms
from discovery_engine.json_forms.offering_form import offering_form
from discovery_engine.tools.offering import OfferingKind

if TYPE_CHECKING:
    from discovery_cli.rendering import Row
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import OfferingEntry
    from discovery_engine.view.offering_access import OfferingList
    from discovery_engine.view.view import View


def show_lists(output: Output, view: View, lists: Iterable[tuple[str, OfferingList]]) -> None:
    """Lists with their keys in JSON, one below the other; notices once."""
    pairs = list(lists)
    notices = tuple(dict.fromkeys(notice for _, page in pairs for notice in page.notices))
    if output.as_json:
        forms = {key: [offering_form(e, view) for e in page.entries] for key, page in pairs}
        output.answer({**forms, "notices": notice_forms(notices)})
        return
    output.table([offering_row(output, entry, view) for _, page in pairs for entry in page.entries])
    say_notices(output, notices)


def say_unlisted(output: Output, view: View, kinds: Iterable[OfferingKind]) -> None:
    """A note for each server of which these could not be listed."""
    offering_kinds = set(kinds)
    for part in view.catalog.parts.values():
        for kind, reason in part.unlisted.items():
            if OfferingKind(kind) in offering_kinds:
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
