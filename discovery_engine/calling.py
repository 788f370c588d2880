"""A tool called once: what is sent is checked before, and how it went is told.

What the owner gives goes along with what the caller sends, and is checked together with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from discovery_engine.errors import DiscoveryError
from discovery_engine.events import EventBus, ToolCalled
from discovery_engine.overrides.pinning import pinned_values

if TYPE_CHECKING:
    from discovery_engine.arguments import Checker
    from discovery_engine.current import CurrentView
    from discovery_engine.late_upstreams import LateUpstreams
    from discovery_engine.tools import JSONObject, Tool
    from discovery_engine.upstream.sessions import OnProgress


class Calling:
    """Calls under the settings of the moment; `checker` gives what checks a tool's arguments."""

    def __init__(
        self,
        current: CurrentView,
        upstreams: LateUpstreams,
        events: EventBus,
        *,
        checker: Callable[[Tool], Checker],
        environ: Mapping[str, str],
    ) -> None:
        self._current = current
        self._upstreams = upstreams
        self._events = events
        self._checker = checker
        self._environ = environ

    async def call(
        self,
        tool: Tool,
        arguments: JSONObject,
        *,
        client: str | None,
        on_progress: OnProgress | None,
    ) -> JSONObject:
        """As `Engine.execute`, of a tool that may be called."""
        view = self._current.view
        pinned = pinned_values(tool, view.settings.overrides, self._environ)
        self._checker(tool).check(arguments, pinned)
        server = view.server(tool.server)
        started, outcome = time.monotonic(), "cancelled"
        try:
            result = await self._upstreams.call(
                server,
                tool.upstream_name,
                {**arguments, **pinned},
                client=client,
                on_progress=on_progress,
            )
            outcome = "tool_error" if result.get("isError") else "ok"
        except DiscoveryError as error:
            outcome = error.code
            raise
        finally:
            seconds = time.monotonic() - started
            self._events.publish(ToolCalled(tool.server, tool.name, outcome, seconds))
        return result
