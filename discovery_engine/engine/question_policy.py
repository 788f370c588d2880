"""The owner's settings for the questions of servers, under the present configuration."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import Settings
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import QuestionSettings


class QuestionPolicy:
    """Follows the configuration; what is computed is kept until it changes."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        """`settings` are those of this moment."""
        self._current = settings
        self._settings: Settings | None = None
        self._by_server: dict[ServerName, QuestionSettings] = {}

    def of_server(self, server: ServerName) -> QuestionSettings:
        """Return the present settings of a server's questions; see `QuestionsOf`."""
        settings = self._current()
        if settings is not self._settings:
            self._settings, self._by_server = settings, {}
        if (policy := self._by_server.get(server)) is None:
            policy = question_settings(settings, server)
            self._by_server[server] = policy
        return policy


def question_settings(settings: Settings, server: ServerName) -> QuestionSettings:
    """The settings of a server's questions.

    `server.roots` without any are none of the owner's, so that the client is asked; an empty list
    at a server is what that server is given.
    """
    configured = settings.by_name.get(server)
    own = configured.roots if configured else None
    roots = (settings.server.roots or None) if own is None else own
    timeout = settings.server.question_timeout
    if roots is None:
        return QuestionSettings(timeout)
    return QuestionSettings(timeout, _roots(settings, roots))


class OwnerRoots(NamedTuple):
    """The roots that servers are given, as `roots/list` has them."""

    shared: tuple[JSONObject, ...] | None
    """None if there are none, so that clients are asked."""
    own: Mapping[ServerName, tuple[JSONObject, ...]]
    """The roots of servers that have their own."""


def owner_roots(settings: Settings) -> OwnerRoots:
    shared = settings.server.roots
    own = {
        server.name: _roots(settings, server.roots)
        for server in settings.servers
        if server.roots is not None
    }
    return OwnerRoots(_roots(settings, shared) if shared else None, own)


def _roots(settings: Settings, folders: Sequence[str]) -> tuple[JSONObject, ...]:
    base = Path(settings.path).parent if settings.path else Path.cwd()
    return tuple(_root(text, base) for text in folders)


def _root(text: str, base: Path) -> JSONObject:
    """A root, as servers are given it. A relative folder starts at `base`."""
    if text.startswith("file://"):
        uri = text
    else:
        # `os.path`, because that of `pathlib` raises for a user who is gone.
        uri = Path(os.path.normpath(base.absolute() / os.path.expanduser(text))).as_uri()  # noqa: PTH111
    name = urlsplit(uri).path.rstrip("/").rpartition("/")[2]
    return {"uri": uri, "name": name} if name else {"uri": uri}
