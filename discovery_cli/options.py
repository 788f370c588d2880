"""Options that several commands share.

Global options are accepted before and after the name of a command: `discovery --json list` equals
`discovery list --json`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, BinaryIO

import click

from discovery_cli.invocation import Invocation
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.errors import DiscoveryError
from discovery_engine.tools.offering import OfferingKind

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.engine.scoped_engine import ScopedEngine
    from discovery_engine.view.view import View

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def pass_invocation(function: Callable[..., object]) -> Callable[..., object]:
    """Pass the invocation to a command, after a note if others may write to the data folder."""

    @click.pass_context
    def command(context: click.Context, /, *args: object, **options: object) -> object:
        invocation = context.ensure_object(Invocation)
        invocation.note_exposed_data()
        if invocation.only_server or invocation.headers:
            _use_one_server(invocation)
        return context.invoke(function, invocation, *args, **options)

    return update_wrapper(command, function)


def _use_one_server(invocation: Invocation) -> None:
    """Create a temporary configuration and data folder for `--command` or `--url`."""
    import json
    import shlex
    from pathlib import Path
    from tempfile import TemporaryDirectory

    if invocation.config or (invocation.program and invocation.address):
        raise click.UsageError("--command, --url and --config exclude each other")
    if invocation.headers and not invocation.address:
        raise click.UsageError("--header belongs to --url")
    headers = dict(map(_header, invocation.headers))
    entry: dict[str, object] = {"url": invocation.address, "headers": headers}
    if invocation.program:
        try:
            words = shlex.split(invocation.program)
        except ValueError as error:
            raise click.UsageError(f"--command cannot be read: {error}") from None
        names = [word.partition("=")[0] for word in words]
        count = next((i for i, word in enumerate(words) if not _is_assignment(word)), len(words))
        if count == len(words):
            raise click.UsageError("--command names no program")
        env = {name: words[i].partition("=")[2] for i, name in enumerate(names[:count])}
        entry = {"command": words[count], "args": words[count + 1 :], "env": env}
    entry["trust"] = "open"  # a review would be lost with the run, and a person reads the output
    folder = Path(invocation.at_end.enter_context(TemporaryDirectory(prefix="discovery-")))
    invocation.config, invocation.data_dir = str(folder / "discovery.yaml"), str(folder / "data")
    text = json.dumps({"servers": {invocation.only_server: entry}})
    Path(invocation.config).write_text(text, encoding="utf-8")


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not (colon and name.strip()):
        raise click.UsageError("--header is NAME: VALUE")
    return name.strip(), value.strip()


def _is_assignment(word: str) -> bool:
    return bool(re.match(r"[A-Za-z_]\w*=", word))


def one_server_options(function: Callable[..., object]) -> Callable[..., object]:
    """Add `--command`, `--url` and `--header`, for one server without a configuration."""
    option = partial(click.option, callback=_store, expose_value=False)
    program = option(
        "--command",
        "program",
        metavar="COMMAND",
        help="Use only the server that COMMAND starts, as `server`, without a configuration.",
    )
    address = option(
        "--url", "address", metavar="URL", help="Use only the remote server at URL, likewise."
    )
    header = option(
        "--header",
        "headers",
        metavar="NAME:VALUE",
        multiple=True,
        help="With --url: send this header; ${NAME} and ${file:PATH} stand for their values.",
    )
    return program(address(header(function)))


view_option = click.option(
    "--view", "view_name", metavar="NAME", help="Show only what clients of this view see."
)


def query_text(invocation: Invocation, given: BinaryIO | None) -> tuple[bytes, str] | None:
    """Return a file of queries and its name; without one, that beside the configuration, if any."""
    from pathlib import Path

    from discovery_engine.config.document.yaml_reader import SIZE_LIMIT
    from discovery_engine.config.files.location import CASE_FILE, locate

    if given:
        return given.read(SIZE_LIMIT + 1), given.name
    place = locate(invocation.config, environ=os.environ)
    path = Path(place.path).with_name(CASE_FILE) if place.path else None
    return (path.read_bytes(), str(path)) if path and path.is_file() else None


def in_view(view: View, name: str | None) -> View:
    """Return what a view of the configuration shows; everything if `name` is None.

    Raises:
        ViewNotFoundError: With the nearest names.
    """
    if name is None:
        return view
    from discovery_engine.view.scope import ScopedViews, named_scope

    return ScopedViews(named_scope(view.settings, name)).view(view)


def engine_in_view(engine: Engine, name: str | None) -> ScopedEngine:
    """Return the engine limited to a view of the configuration; all of it without a `name`.

    Raises:
        ViewNotFoundError: If there is no such view; the error suggests the nearest names.
    """
    return engine if name is None else engine.in_view(name)


def _store(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Store a global option; an absent one changes nothing."""
    invocation = context.ensure_object(Invocation)
    if value and parameter.name:
        setattr(invocation, parameter.name, value)


def _store_json(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    invocation = context.ensure_object(Invocation)
    invocation.as_json |= value or wants_json((), os.environ.get("DISCOVERY_OUTPUT"))


def global_options(*, hidden: bool) -> list[click.Option]:
    """Create the global options for one command."""
    option = partial(click.Option, callback=_store, expose_value=False, hidden=hidden)
    return [
        option(
            ["--config"],
            metavar="FILE",
            help="The discovery.yaml to use; by default, $DISCOVERY_CONFIG or the usual places.",
        ),
        option(
            ["--data-dir"],
            metavar="DIR",
            help="The data folder; by default, $DISCOVERY_DATA_DIR or that of your user.",
        ),
        option(["--frozen"], is_flag=True, help="Use only what discovery.lock pins."),
        option(["-v", "--verbose"], count=True, help="Show logs on stderr; twice for more."),
        option(["--no-progress"], is_flag=True, help="Hide progress."),
        option(
            ["--json", "as_json"],
            is_flag=True,
            help="Print JSON, as DISCOVERY_OUTPUT=json does.",
            callback=_store_json,
            hidden=False,
        ),
    ]


def wants_json(words: Sequence[str], variable: str | None) -> bool:
    """Return whether JSON output is requested, before arguments are parsed."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options or (variable or "").casefold() == "json"


def _completer(words: Callable[..., Iterable[str]], *, continues: bool = False) -> Completer:
    """Return a completer that reads the registry, and never starts a server.

    With `continues`, `words` also gets the arguments typed before.
    """

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        invocation = context.ensure_object(Invocation)
        typed = (context.params.get(parameter.name or "") or (),) if continues else ()
        try:
            view = invocation.recall()
            candidates = words(view, *typed) if view else ()
        except (DiscoveryError, click.UsageError):  # completion shows no errors
            return []
        begins = incomplete.casefold()
        return [word for word in candidates if word.casefold().startswith(begins)]

    return complete


def _server_names(view: View) -> list[str]:
    return [server.name for server in view.settings.servers]


def _tool_keys(view: View) -> list[str]:
    return [str(entry.key) for entry in view.catalog if entry.verdict.enabled]


def _targets(view: View) -> list[str]:
    tools = sorted({entry.tool.name for entry in view.catalog if entry.verdict.enabled})
    return [*_server_names(view), *_tool_keys(view), *tools]


def _calls(view: View, typed: Sequence[str]) -> list[str]:
    """Return servers and tools; after a server its tools, and after a tool its arguments."""
    from discovery_cli.targets import server_named, tool_named

    if not typed:
        return _targets(view)
    if len(typed) == 1 and (server := server_named(view, typed[0])):
        return [entry.tool.name for entry in view.catalog.part(server.name).visible]
    entry, rest = tool_named(view, typed, None, takes_arguments=True)
    given = {word.partition("=")[0] for word in rest}
    return [f"{p.name}=" for p in entry.tool.parameters if p.name not in given]


def _explained(view: View) -> list[str]:
    """Return servers, tools with hidden ones, and codes of errors."""
    from discovery_engine.errors.codes import CODES

    return [*_server_names(view), *(str(entry.key) for entry in view.catalog), *CODES]


def _tags(view: View) -> list[str]:
    return sorted({tag for entry in view.catalog for tag in entry.verdict.tags})


def _offerings(view: View, kind: OfferingKind) -> list[str]:
    """Return the addresses of offerings, and servers, whose offerings can be listed."""
    entries = view.offerings.visible(kind)
    return [*_server_names(view), *(view.offerings.address(entry.offering) for entry in entries)]


def complete_client(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of clients that servers are read from or that can be connected."""
    from discovery_engine.config.sources import SOURCE_TYPES

    return [name for name in SOURCE_TYPES if name != "custom" and name.startswith(incomplete)]


complete_server = _completer(_server_names)
complete_target = _completer(_targets)
complete_call = _completer(_calls, continues=True)
complete_explained = _completer(_explained)
complete_tag = _completer(_tags)
complete_resource = _completer(partial(_offerings, kind=OfferingKind.RESOURCE))
complete_prompt = _completer(partial(_offerings, kind=OfferingKind.PROMPT))

tag_option = click.option(
    "--tag",
    "tags",
    metavar="TAG",
    multiple=True,
    shell_complete=complete_tag,
    help="Only tools with this tag; if repeated, with all of these tags.",
)
any_tag_option = click.option(
    "--any-tag", is_flag=True, help="With several --tag, one of them is enough."
)


_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = lazy_pattern(r"([1-9][0-9]{0,4})([smhdw])")


def duration_or_date(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> float | datetime | None:
    """Convert an option to seconds or a date, as its callback."""
    if text is None:
        return None
    if match := _DURATION.fullmatch(text):
        return float(match[1]) * _UNITS[match[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is neither a duration like 90m, 12h, 30d or 4w nor a date"
        raise click.BadParameter(message, context, parameter) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def past(moment: float | datetime | None, now: float) -> float | None:
    """Return the Unix time of a date, or of that many seconds before `now`; None for None."""
    if isinstance(moment, datetime):
        return moment.timestamp()
    return None if moment is None else now - moment
