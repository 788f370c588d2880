from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discovery_cli.entry_output import show_details, show_warnings
from discovery_cli.marketplace_output import show_entries
from discovery_cli.output import Output
from discovery_engine._util.text import columns_of
from discovery_engine.diagnostics import Diagnostic
from discovery_engine.marketplace.entry import (
    EntryOrigin,
    Input,
    MarketplaceEntry,
    OfferedTool,
    PackageOffer,
    RemoteOffer,
    VersionNote,
)
from discovery_engine.marketplace.entry_details import EntryDetails
from discovery_engine.marketplace.package_managers.prerequisites import Prerequisite

NOW = datetime(2026, 11, 23, tzinfo=UTC).timestamp()
LONG = "io.github.modelcontextprotocol/server-filesystem"
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


def test_a_terminal_shows_two_lines_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    show_entries(output(), [entry(), entry(status="deprecated", version="", remotes=())])

    assert capsys.readouterr().out.splitlines() == [
        "io.github.acme/files  1.2.0  npm, remote  unreviewed",
        "    Reads, writes and searches files below the folders that you name.",
        "io.github.acme/files  npm  unreviewed, deprecated",
        "    Reads, writes and searches files below the folders that you name.",
    ]


def test_a_program_reads_one_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    show_entries(output(is_terminal=False), [entry(description="a\nb"), entry(name="b")])

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0] == "io.github.acme/files  1.2.0  npm, remote  unreviewed  a b"


@pytest.mark.parametrize("width", [80, 60, 50])
def test_everything_fits_the_terminal(capsys: pytest.CaptureFixture[str], width: int) -> None:
    wide = entry(
        name=LONG,
        description="many words of a description that is long " * 6,
        tools=tuple(OfferedTool(f"tool_{n}") for n in range(40)),
        publisher="a publisher with a long name of many words " * 3,
    )
    warning = Diagnostic("OFFER_NEW", "it was published lately " * 8, "look at it first " * 5)

    show_entries(output(width), [wide])
    show_details(output(width), details(wide), None, NEXT, now=NOW)
    show_warnings(output(width), [warning])

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if columns_of(line) > width] == []


def test_all_that_is_known_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    package = PackageOffer(
        "npm",
        "@acme/files",
        "1.2.0",
        integrity="sha512-abc=",
        environment=(
            Input(
                "FILES_KEY",
                "environment",
                description="Opens the files",
                is_required=True,
                is_secret=True,
                default="hunter2",
            ),
            Input("mode", "named", choices=("read", "write")),
            Input("FIXED", "environment", value="1"),
            Input(
                "url",
                "named",
                value="http://{host}/",
                description="Where",
                variables=(Input("host", "variable", default="localhost"),),
            ),
        ),
    )
    remote = RemoteOffer(
        "sse",
        "https://files.acme.example",
        variables=(Input("tenant", "variable", is_required=True),),
    )
    shown = EntryDetails(
        entry(
            tools=(OfferedTool("read_file"),),
            tags=("files",),
            packages=(package,),
            remotes=(remote,),
        ),
        warnings=(Diagnostic("OFFER_NEW", "it was published lately", "wait"),),
        prerequisites=(
            Prerequisite("npx", "/bin/npx", "11.19.1"),
            Prerequisite("npm", problem="it is not on the PATH", hint="install Node.js"),
        ),
    )

    show_details(output(), shown, None, NEXT, now=NOW)

    assert capsys.readouterr().out.splitlines() == [
        "io.github.acme/files  1.2.0  npm, remote  unreviewed",
        "  Acme Files",
        "  | Reads, writes and searches files below the folders that you name.",
        "  publisher   github.com/acme",
        "  repository  https://github.com/acme/files",
        "  published   2026-11-20, 3 d ago; first 2025-02-01",
        "  versions    1.2.0, 1.1.0, 1.0.0",
        "  listed by   official, npm (unreviewed)",
        "  tags        files",
        "  tools       1 tool: read_file",
        "  package     npm: @acme/files 1.2.0",
        "  hash        sha512-abc=",
        "  asks for    FILES_KEY (required, secret): Opens the files",
        "  asks for    mode (optional, one of read, write)",
        "  asks for    host (optional, default localhost): Where",
        "  address     https://files.acme.example (sse)",
        "  asks for    tenant (required)",
        "  needs       npx 11.19.1: here",
        "  needs       npm: it is not on the PATH; install Node.js",
        "  !  it was published lately [OFFER_NEW] (wait)",
    ]


def test_what_is_not_known_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_details(output(), details(MarketplaceEntry("a", "a")), None, NEXT, now=NOW)

    shown = capsys.readouterr().out
    assert "repository  none is named" in shown
    assert "published   no date is known" in shown
    assert "tools       not known before it runs" in shown
    assert "a  not usable  unreviewed" in shown


@pytest.mark.parametrize(
    ("usable", "shown"),
    [
        (("uvx", "uv"), ["needs       uvx 1: here"]),
        (("uv",), ["needs       uv 1: here"]),
        ((), ["needs       uvx: it is missing; get uv"]),
    ],
)
def test_one_of_uvx_and_uv_is_enough(
    capsys: pytest.CaptureFixture[str], usable: tuple[str, ...], shown: list[str]
) -> None:
    found = tuple(
        Prerequisite(name, version="1")
        if name in usable
        else Prerequisite(name, problem="it is missing", hint="get uv")
        for name in ("uvx", "uv")
    )

    show_details(output(), EntryDetails(entry(), prerequisites=found), None, NEXT, now=NOW)

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line.startswith("needs")] == shown


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=30), st.text(max_size=60))
def test_any_text_is_shown_without_control_characters(
    capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    odd = entry(name=name, description=text, publisher=text, published_at=name)
    capsys.readouterr()

    show_entries(output(), [odd])
    show_details(output(), details(odd), None, NEXT, now=NOW)

    shown = capsys.readouterr().out
    assert all(
        character.isprintable() or character == "\n" for character in shown if character < "\x80"
    )
