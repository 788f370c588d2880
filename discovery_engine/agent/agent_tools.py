"""The tools of servers as a model sees them: each is made once, as long as it stays the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from discovery_engine.agent.agent_tool import AgentTool, ToolCalls
from discovery_engine.agent.client_definition import client_definition
from discovery_engine.agent.portable_schema import PortableSchema

if TYPE_CHECKING:
    from discovery_engine.agent.exposed_tools import ExposedTools
    from discovery_engine.catalog import Catalog, Entry
    from discovery_engine.config.settings import Settings


class AgentTools:
    """Tools whose calls `calls` carries out; at each turn of an agent most were made before."""

    def __init__(self, calls: ToolCalls) -> None:
        self._calls = calls
        self._made: dict[str, tuple[Entry, AgentTool]] = {}
        self._made_of: tuple[Catalog, Settings] | None = None
        self._all: list[AgentTool] | None = None

    def of(self, exposed: ExposedTools, entries: Iterable[Entry]) -> list[AgentTool]:
        """The tools of these entries; without those that have no name towards clients."""
        self._forget_outdated(exposed)
        addresses, settings = exposed.addresses, exposed.view.settings
        tools = []
        for entry in entries:
            if name := addresses.client_name(entry.key):
                pair = self._made.get(name)
                if pair is None or pair[0] is not entry:
                    pair = self._made[name] = entry, _made(entry, name, settings, self._calls)
                tools.append(pair[1])
        return tools

    def all(self, exposed: ExposedTools) -> list[AgentTool]:
        """Every tool that can be called, in the order of servers and names."""
        self._forget_outdated(exposed)
        if self._all is None:
            self._all = self.of(exposed, exposed.view.catalog.visible)
        return list(self._all)

    def _forget_outdated(self, exposed: ExposedTools) -> None:
        """Forget tools of other settings, and those that are gone or have another definition."""
        view, before = exposed.view, self._made_of
        if before and before[0] is view.catalog and before[1] is view.settings:
            return
        is_same_form = before is not None and before[1] is view.settings
        pairs = self._made.items() if is_same_form else ()
        self._made = {name: pair for name, pair in pairs if exposed.usable(pair[0].key) is pair[0]}
        self._made_of = view.catalog, view.settings
        self._all = None


def _made(entry: Entry, name: str, settings: Settings, calls: ToolCalls) -> AgentTool:
    definition = client_definition(entry, name, settings)
    portable = PortableSchema.of(definition["inputSchema"])
    description = definition.get("description") or entry.tool.title
    output = definition.get("outputSchema")
    title = definition.get("title")
    return AgentTool(
        name=name,
        title=title if isinstance(title, str) else None,
        description=description or f"The tool {entry.tool.name} of {entry.tool.server}.",
        parameters=portable.schema,
        output_schema=output if isinstance(output, dict) else None,
        annotations=entry.tool.annotations,
        origin=entry.key,
        renamed=portable.renamed,
        calls=calls,
    )
