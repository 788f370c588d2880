"""Changes of rules, overrides and synonyms, tried before they are written: `engine.changes`.

    planned = await engine.changes.plan({"toolRules": '- {pattern: "*delete*", enabled: false}'})
    print(planned.edit.diff, planned.projection.plan(price=...))
    await engine.changes.apply(planned)

A plan is made from what this engine knows at that moment. It starts no server and writes nothing,
and the catalog that agents use stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio
import anyio.to_thread
from msgspec import Struct

from discovery_engine._util import gc_pause
from discovery_engine.config.editing.section_edit import (
    EditableSection,
    SectionEdit,
    edit_sections,
    read_sections,
)
from discovery_engine.config.editing.yaml_text import block
from discovery_engine.engine.owner.change_plan import (
    ChangePlan,
    Projection,
    QueryMove,
    TokenPrice,
    project_view,
)
from discovery_engine.errors import ConfigurationError, PlanChangedError

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue
    from discovery_engine.catalog import Entry
    from discovery_engine.config.editing.yaml_text import Entries
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.engine import Engine
    from discovery_engine.engine.trust_store import TrustStore
    from discovery_engine.search.embedders import Vector
    from discovery_engine.secrets.resolver import SecretResolver
    from discovery_engine.store.registry import Registry
    from discovery_engine.tools.model import Tool
    from discovery_engine.view.view import View

_COMPARED = 10  # tools of an answer


class PlannedChange(Struct, frozen=True):
    edit: SectionEdit
    projection: Projection

    @property
    def digest(self) -> str:
        """That of the file as it is and as it would be: a plan shows both."""
        edit = self.edit.edit
        contents = edit.before or b"", edit.after.encode()
        digests = (hashlib.sha256(content).hexdigest() for content in contents)
        return hashlib.sha256("".join(digests).encode()).hexdigest()

    def require_shown(self, digest: str) -> None:
        """Check that this is what was shown.

        Raises:
            PlanChangedError: If the file has changed since, or would become something else.
        """
        if digest != self.digest:
            raise PlanChangedError("saving the rules")


class ConfigurationChanges:
    """Made by the engine; `embed` gives the vectors of a query, if there is an embedder."""

    def __init__(
        self,
        host: Engine,
        preview: Callable[[bytes], Settings],
        trust: TrustStore,
        store: Registry,
        *,
        secrets: SecretResolver,
        environ: Mapping[str, str],
        embed: Callable[[str], Awaitable[Sequence[Vector]]],
    ) -> None:
        self._host = host
        self._preview = preview
        self._trust = trust
        self._store = store
        self._secrets = secrets
        self._environ = environ
        self._embed = embed
        self._prices: Mapping[Tool, int] = {}
        self._one = anyio.CapacityLimiter(1)
        """One plan at a time: each takes a processor for as long as it lasts."""

    async def sections(self) -> tuple[EditableSection, ...]:
        """The sections of the file that can be changed, as they are written.

        Raises:
            ConfigurationError: If there is no file, or it cannot be used.
        """
        return await anyio.to_thread.run_sync(read_sections, await self._path())

    async def plan(self, sections: Mapping[str, str | list[JSONValue]]) -> PlannedChange:
        """Plan a change to other sections.

        Args:
            sections: The sections by their names, as `sections` has them, as YAML or as lists of
                entries.

        Raises:
            ConfigurationError: If they cannot be used; with each problem at the line and column of
                its section, which stands in place of the file.
            ViewNotFoundError: If there is no such view.
        """
        texts = {name: _text(section) for name, section in sections.items()}
        plan = partial(self._plan, await self._path(), texts, self._host.view)
        return await anyio.to_thread.run_sync(plan, limiter=self._one)

    async def describe(
        self, planned: PlannedChange, *, price: TokenPrice, view: str | None = None
    ) -> ChangePlan:
        """Return what a planned change does.

        Args:
            planned: What `plan` gave.
            price: The tokens of a tool's definition; it is asked once for each that stays the same.
            view: What changes for the clients of this view only.

        Raises:
            ViewNotFoundError: If there is no such view, neither before nor after the change.
        """
        prices = _Prices(price, self._prices)

        def run() -> ChangePlan:
            with gc_pause.paused():
                return planned.projection.plan(price=prices, view=view)

        plan = await anyio.to_thread.run_sync(run, limiter=self._one)
        self._prices = prices.used
        return plan

    async def compare(
        self,
        projection: Projection,
        queries: Iterable[str],
        *,
        view: str | None = None,
        limit: int = _COMPARED,
    ) -> tuple[QueryMove, ...]:
        """Return what queries find before and after a change, as an agent would ask them.

        Args:
            projection: The projection of a planned change.
            queries: What is asked.
            view: The view that the agent is in; None for none.
            limit: The most tools of each answer.
        """
        queries = tuple(queries)
        vectors = {query: await self._embed(query) for query in queries}

        def run() -> tuple[QueryMove, ...]:
            moves = projection.compare(queries, view=view, limit=limit, vectors=vectors)
            return tuple(moves)

        return await anyio.to_thread.run_sync(run, limiter=self._one)

    async def apply(self, planned: PlannedChange) -> None:
        """Write the file, after a backup of it, and use it from now on; no-op if it is the same.

        Raises:
            ConfigurationError: If the file has changed since the plan, or cannot be written.
        """
        if planned.edit.edit.is_empty:
            return
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(planned.edit.edit.apply)
            await self._host.reload()

    async def _path(self) -> Path:
        await self._host.complete_settings()
        path = self._host.view.settings.path
        if path is None:
            hint = "`discovery init` writes one"
            message = "there is no file that could be changed"
            raise ConfigurationError.of_file("CONFIG_NOT_EDITED", "configuration", message, hint)
        return Path(path)

    def _plan(self, path: Path, texts: Mapping[str, str], view: View) -> PlannedChange:
        edit = edit_sections(path, texts)
        changed = self._preview(edit.edit.after.encode())
        with gc_pause.paused():  # what is made lives as long as the plan
            projection = project_view(
                view.snapshot(),
                changed,
                decided=self._trust.decided,
                store=self._store,
                secrets=self._secrets,
                environ=self._environ,
            )
        return PlannedChange(edit, projection)


class _Prices:
    """The prices of one plan; those of the plan before are not asked for again."""

    def __init__(self, price: TokenPrice, ranks: Mapping[Tool, int]) -> None:
        self._price = price
        self._known = ranks
        self.used: dict[Tool, int] = {}

    def __call__(self, entry: Entry) -> int:
        tool = entry.tool
        price = self.used.get(tool) or self._known.get(tool) or self._price(entry)
        self.used[tool] = price
        return price


def _text(value: str | list[JSONValue]) -> str:
    if isinstance(value, str):
        return value
    return block(cast("Entries", value)) if value else ""
