"""Resolves the arguments of a command to a server or a tool.

`github create_issue`, `github:create_issue` and, if only one server has it, `create_issue` name the
same tool. A first word that names both a server and a tool is read as the server if the next word
names one of its tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode, UnlistedServerError, exit_code_of_failure
from discovery_cli.invocation import named
from discovery_engine._util.suggestions import nearest
from discovery_engine.catalog import Entry
from discovery_engine.errors import NotFoundError, ServerNotFoundError, ToolNotFoundError
from discovery_engine.tools.model import ServerName, ToolName

if TYPE_CHECKING:
    from discovery_cli.invocation import Concerned
    from discovery_cli.output import Output
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.view.view import View


_OFFERED = 3  # servers, at most, that a suggestion names


def server_named(view: View, word: str) -> ServerSettings | None:
    """Return the settings of the server that `word` names; None if there is none."""
    try:
        return view.server_settings(word)
    except ServerNotFoundError:
        return None


def one_server(name: str) -> Concerned:
    """Return a function that selects the server of that name, for `Invocation.view`."""
    return lambda view: [view.server(name).name]


def exit_code_of_server(view: View, name: str | None) -> ExitCode:
    """Return the exit code of a command that lists one server, or all if `name` is None.

    A server that was never listed gives the code of its failure.
    """
    if name is None:
        return ExitCode.OK
    server = view.server_settings(name)
    if server.problem:
        return ExitCode.USAGE
    part = view.catalog.part(server.name)
    if part.failure and not view.is_known(server.name):
        return exit_code_of_failure(part.failure.code)
    return ExitCode.OK


def servers_of(words: Sequence[str], server: str | None) -> Concerned:
    """Return a function that selects the servers to list before `words` can be resolved."""

    def concerned(view: View) -> list[ServerName]:
        if server is not None:
            return [view.server(server).name]
        servers = view.addresses.servers_in(words[0]) if words else []
        return servers or [s.name for s in view.settings.servers]

    return concerned


def servers_shown(words: Sequence[str], server: str | None) -> Concerned:
    """Return what `servers_of` does, but only servers that have the tool, if some are known to."""

    def concerned(view: View) -> Iterable[ServerName]:
        if _is_tool_alone(view, words, server):
            having = [entry.tool.server for entry in view.catalog.named(ToolName(words[0]))]
            if having:
                return having
        return servers_of(words, server)(view)

    return concerned


def say_unlisted(output: Output, view: View, words: Sequence[str], server: str | None) -> None:
    """Write a note that servers not listed yet may also have a tool of that name."""
    if not _is_tool_alone(view, words, server):
        return
    if unlisted := _unlisted(view):
        output.say(
            f"note: not listed yet, and may have a tool of that name, too: {named(unlisted)}"
            " (`discovery refresh` lists them)"
        )


@contextmanager
def noting_unlisted(output: Output, view: Callable[[], View]) -> Iterator[None]:
    """Write a note about servers not listed yet if the block raises a `NotFoundError`."""
    try:
        yield
    except NotFoundError as error:
        if error.server is None and (unlisted := _unlisted(view())):
            which = f"not listed yet, and may have it: {named(unlisted)}"
            output.say(f"note: {which} (`discovery refresh` lists them)")
        raise


def _unlisted(view: View) -> list[ServerName]:
    return [s.name for s in view.servers() if s.listed_at is None and s.state != "disabled"]


def _is_tool_alone(view: View, words: Sequence[str], server: str | None) -> bool:
    return server is None and bool(words) and not view.addresses.servers_in(words[0])


def tool_named(
    view: View, words: Sequence[str], server: str | None, *, takes_arguments: bool = False
) -> tuple[Entry, tuple[str, ...]]:
    """Return the tool that the first word or two name, enabled or not, and the remaining words.

    Args:
        view: The view to search.
        words: The words that were typed, at least one.
        server: The only server to search; None for all.
        takes_arguments: Whether the word after a tool may be its argument. Otherwise the first of
            two words can only be a server.

    Raises:
        NotFoundError: If there is no such tool; the error suggests the nearest names.
    """
    first, *rest = words
    if server is not None:
        return view.find(server, first), tuple(rest)
    if server_named(view, first) is None:
        return _tool_alone(view, first, rest, takes_arguments=takes_arguments), tuple(rest)
    if not rest:
        return _tool_like_a_server(view, first), ()
    try:
        return view.find(first, rest[0]), tuple(rest[1:])
    except ToolNotFoundError as error:
        return _or_else(view, first, error), tuple(rest)


def tool_shown(
    view: View, words: Sequence[str], server: str | None
) -> tuple[Entry, tuple[str, ...]]:
    """Return what `tool_named` does, for commands that only show a tool.

    Raises:
        NotFoundError: If there is no such tool; the error suggests the nearest names.
        UnlistedServerError: If the tools of its server could not be listed.
        ConfigurationError, ServerDisabledError, UntrustedServerError: If its server must not be
            connected to.
    """
    try:
        return tool_named(view, words, server)
    except ToolNotFoundError as error:
        if error.server is None or view.is_known(ServerName(error.server)):
            raise
        target = view.require_connectable(error.server)
        if failure := view.catalog.part(target.name).failure:
            raise UnlistedServerError(target.name, failure) from None
        raise


def _tool_alone(view: View, word: str, rest: Sequence[str], *, takes_arguments: bool) -> Entry:
    """Return the only tool of that name.

    If there is none and another word follows, the error is that of a misspelt server.
    """
    try:
        return view.find(None, word)
    except ToolNotFoundError:
        if rest and not (takes_arguments and _is_rather_a_tool(view, word, rest[0])):
            names = nearest(word, view.settings.by_name)
            raise ServerNotFoundError(word, names or _having(view, rest[0])) from None
        raise


def _is_rather_a_tool(view: View, word: str, following: str) -> bool:
    """Return whether `word` is more likely a misspelt tool, and `following` its argument."""
    servers = view.settings.by_name
    if "=" in following or not (near := nearest(word, servers)):
        return True
    if any(nearest(following, _tools(view, name)) for name in near):
        return False
    return nearest(word, [*servers, *(entry.tool.name for entry in view.catalog)])[0] not in servers


def _having(view: View, tool: str) -> list[str]:
    """Return some servers that have a tool with a similar name."""
    names = (name for name in sorted(view.settings.by_name) if nearest(tool, _tools(view, name)))
    return list(islice(names, _OFFERED))


def _tools(view: View, server: str) -> list[str]:
    return [entry.tool.name for entry in view.catalog.part(ServerName(server)).visible]


def _tool_like_a_server(view: View, word: str) -> Entry:
    try:
        return view.find(None, word)
    except NotFoundError:
        raise click.UsageError(
            f"{word!r} is a server, name a tool of it: `discovery tools {word}` shows them"
        ) from None


def _or_else(view: View, word: str, error: ToolNotFoundError) -> Entry:
    """Return the tool whose name is also that of a server; raise `error` if there is none."""
    try:
        return view.find(None, word)
    except NotFoundError:
        raise error from None
