"""Which server or tool the words of a command name.

`github create_issue`, `github:create_issue` and, where only one server has it, `create_issue` are
the same tool. A word that is a server's name is read as one first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from discovery_engine.catalog import Entry
from discovery_engine.errors import NotFoundError, ServerNotFoundError, ToolNotFoundError
from discovery_engine.nearest import nearest

if TYPE_CHECKING:
    from discovery_cli.invocation import Concerned
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.tools import ServerName
    from discovery_engine.view import View


def server_named(view: View, word: str) -> ServerSettings | None:
    """The server of that name, if there is one."""
    try:
        return view.server(word)
    except ServerNotFoundError:
        return None


def one_server(name: str) -> Concerned:
    """Only the server of that name matters."""
    return lambda view: [view.server(name).name]


def servers_of(words: Sequence[str], server: str | None) -> Concerned:
    """The servers that must be known before `words` can be read."""

    def concerned(view: View) -> list[ServerName]:
        if server is not None:
            return [view.server(server).name]
        found = view.addresses.servers_in(words[0]) if words else []
        return found or [s.name for s in view.settings.servers]

    return concerned


def tool_named(
    view: View, words: Sequence[str], server: str | None
) -> tuple[Entry, tuple[str, ...]]:
    """The tool that the first word or two name, enabled or not, and the words after that.

    Raises:
        NotFoundError: With the nearest names.
    """
    first, *rest = words
    if server is not None:
        return view.find(server, first), tuple(rest)
    if server_named(view, first) is None:
        return _tool_alone(view, first, rest), tuple(rest)
    if not rest:
        return _tool_like_a_server(view, first), ()
    try:
        return view.find(first, rest[0]), tuple(rest[1:])
    except ToolNotFoundError as error:
        return _or_else(view, first, error), tuple(rest)


def _tool_alone(view: View, word: str, rest: Sequence[str]) -> Entry:
    """The only tool of that name; a word that is nearly a server's is taken for a slip."""
    try:
        return view.find(None, word)
    except ToolNotFoundError:
        names = nearest(word, [server.name for server in view.settings.servers])
        if names and rest and any(entry.tool.name == rest[0] for entry in view.catalog):
            raise ServerNotFoundError(word, names) from None
        raise


def _tool_like_a_server(view: View, word: str) -> Entry:
    try:
        return view.find(None, word)
    except NotFoundError:
        raise click.UsageError(
            f"{word!r} is a server, name a tool of it: `discovery tools {word}` shows them"
        ) from None


def _or_else(view: View, word: str, error: ToolNotFoundError) -> Entry:
    """A tool that is named as a server is, where the word after it names no tool of that."""
    try:
        return view.find(None, word)
    except NotFoundError:
        raise error from None
