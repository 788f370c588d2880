from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from discovery_cli.commands.marketplace import show_entries
from discovery_cli.entry_output import show_details, show_warnings
from discovery_cli.output import Output
from discovery_engine.diagnostics import Diagnostic
from discovery_engine.marketplace.entry import (
    EntryOrigin,
    MarketplaceEntry,
    OfferedTool,
    PackageOffer,
    RemoteOffer,
    VersionNote,
)
from discovery_engine.marketplace.entry_details import EntryDetails

NOW = datetime(2026, 11, 23, tzinfo=UTC).timestamp()
NEXT = "discovery marketplace install files"
HOSTILE = "\x1b[2J\x1b]0;x\x07\r\nerror: run me\u202e\u200b"


def entry(**changes: Any) -> MarketplaceEntry:
    usual: dict[str, Any] = {
        "id": "a",
        "name": "io.github.acme/files",
        "title": "Acme Files",
        "description": "Reads, writes and searches files below the folders that you name.",
        "version": "1.2.0",
        "publisher": "github.com/acme",
        "repository": "https://github.com/acme/files",
        "published_at": "2026-11-20T00:00:00Z",
        "first_published_at": "2025-02-01T00:00:00Z",
        "packages": (PackageOffer("npm", "@acme/files", "1.2.0"),),
        "remotes": (RemoteOffer("sse", "https://files.acme.example"),),
        "versions": tuple(VersionNote(f"1.{n}.0") for n in range(2, -1, -1)),
        "origins": (EntryOrigin("official", "official"), EntryOrigin("npm", "unreviewed")),
    }
    return MarketplaceEntry(**usual | changes)


def details(entry: MarketplaceEntry) -> EntryDetails:
    return EntryDetails(entry)


def output(width: int = 80, *, is_terminal: bool = True) -> Output:
    return Output(
        as_json=False, is_terminal=is_terminal, has_colour=False, has_unicode=True, width=width
    )


@pytest.mark.parametrize("is_terminal", [True, False])
def test_texts_of_others_neither_control_the_terminal_nor_begin_a_line(
    capsys: pytest.CaptureFixture[str], is_terminal: bool
) -> None:
    hostile = entry(
        name=HOSTILE,
        title=HOSTILE,
        description=f"a\n{HOSTILE}",
        version=HOSTILE,
        publisher=HOSTILE,
        repository=HOSTILE,
        tools=(OfferedTool(HOSTILE, HOSTILE),),
        tags=(HOSTILE,),
        published_at=HOSTILE,
        versions=(VersionNote(HOSTILE),),
    )

    show_entries(output(is_terminal=is_terminal), [hostile])
    show_details(output(is_terminal=is_terminal), details(hostile), None, NEXT, now=NOW)
    show_warnings(output(is_terminal=is_terminal), [Diagnostic("OFFER_NEW", HOSTILE, HOSTILE)])

    shown = capsys.readouterr().out
    assert not set(shown) & set("\x1b\x07\r\u202e\u200b")
    assert not any(line.startswith("error") for line in shown.splitlines())
