"""The tools of servers that a client uses by their own names, as `server.expose` has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from discovery_engine.agent.client_definition import client_definition
from discovery_engine.agent.steps.call_steps import MOST_STEPS
from discovery_engine.view.scope import Scope

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Entry
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.tools.client_names import Naming
    from discovery_engine.tools.meta_tools import MetaTool
    from discovery_engine.tools.model import ToolKey
    from discovery_engine.view.addresses import AddressBook
    from discovery_engine.view.view import View


class ExposedTools:
    """The tools that are visible and exposed, and the meta-tools beside them."""

    def __init__(
        self,
        engine: ScopedEngine,
        expose: Sequence[str],
        pins: Sequence[str],
        helpers: Mapping[str, MetaTool],
        naming: Naming | None = None,
    ) -> None:
        """The exposed tools of an engine.

        Args:
            engine: What shows the tools.
            expose: Patterns; all that is visible is exposed without any.
            pins: Patterns of the tools that are listed before all others.
            helpers: The meta-tools that are listed, too.
            naming: How tools are named; as the settings have it if None.
        """
        self.helpers = helpers
        self._naming = naming
        self._addresses: AddressBook | None = None
        self.engine = engine.within(Scope.of_patterns(expose)) if expose else engine
        self._pinned = self.engine.within(Scope.of_patterns(pins)) if pins else None

    @property
    def view(self) -> View:
        return self.engine.view

    @property
    def addresses(self) -> AddressBook:
        """Which names the tools have."""
        book = self.view.addresses
        if self._naming in (None, book.naming):
            return book
        if self._addresses is None or self._addresses.catalog is not book.catalog:
            # Made anew it lacks the table of all names, which is computed on its first use.
            self._addresses = replace(book, naming=self._naming)
        return self._addresses

    def pinned(self) -> list[Entry]:
        """The tools that are listed before all others."""
        return list(self._pinned.view.catalog.visible) if self._pinned else []

    def named(self, name: str) -> Entry | None:
        """The tool of that name towards clients, if it can be used."""
        entry = self.addresses.by_client_name(name)
        return entry if entry and entry.is_visible else None

    def of_steps(self, arguments: JSONObject) -> Iterator[Entry]:
        """The tools that steps call, as far as they can be used."""
        steps = arguments.get("steps")
        for step in steps[:MOST_STEPS] if isinstance(steps, list) else ():
            name = step.get("tool") if isinstance(step, dict) else None
            if isinstance(name, str) and (entry := self.named(name)):
                yield entry

    def usable(self, key: ToolKey) -> Entry | None:
        """The tool of that key, if it can be used."""
        entry = self.view.catalog.get(key.server, key.tool)
        return entry if entry and entry.is_visible else None

    def definitions(self, entries: Iterable[Entry]) -> Iterator[tuple[str, JSONObject]]:
        """Yield names and definitions as shown to clients; skip a tool without a client name."""
        addresses, settings = self.addresses, self.view.settings
        for entry in entries:
            if name := addresses.client_name(entry.key):
                yield name, client_definition(entry, name, settings)

    def names(self, keys: Iterable[ToolKey]) -> dict[ToolKey, str]:
        """The names towards clients of those that have one."""
        addresses = self.addresses
        return {key: name for key in keys if (name := addresses.client_name(key))}

    def input_schema(self, name: str) -> JSONObject | None:
        """Return the schema of a tool's or a helper's arguments; None if nothing has that name."""
        if helper := self.helpers.get(name):
            return helper.input_schema
        entry = self.named(name)
        return entry.tool.input_schema if entry else None


def execution(key: ToolKey, arguments: JSONObject) -> JSONObject:
    """The arguments of `execute_tool` that a call of a tool by its name means."""
    return {"server": key.server, "tool": key.tool, "arguments": arguments}
