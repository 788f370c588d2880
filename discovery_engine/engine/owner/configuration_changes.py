"""Changes to rules, overrides and synonyms, with a preview of their effects: `engine.changes`.

    planned = await engine.changes.plan({"toolRules": '- {pattern: "*delete*", enabled: false}'})
    print(planned.edit.diff, planned.projection.plan(price=...))
    await engine.changes.apply(planned)

A plan is computed from the current catalog of the engine. Planning starts no server and writes
nothing, and the catalog that agents use does not change.
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

_COMPARED = 10  # hits of an answer


class PlannedChange(Struct, frozen=True):
    edit: SectionEdit
    projection: Projection

    @property
    def digest(self) -> str:
        """Return the SHA-256, in hex, of the digests of the file before and after the change."""
        edit = self.edit.edit
        contents = edit.before or b"", edit.after.encode()
        digests = (hashlib.sha256(content).hexdigest() for content in contents)
        return hashlib.sha256("".join(digests).encode()).hexdigest()

    def require_shown(self, digest: str) -> None:
        """Check that a digest is the one of this plan, as it was shown to the owner.

        Raises:
            PlanChangedError: If it differs: the file changed meanwhile, or the edit is another.
        """
        if digest != self.digest:
            raise PlanChangedError("saving the rules")


class ConfigurationChanges:
    """Plans and applies changes; available as `engine.changes`.

    `embed` returns the vectors of a query, an empty sequence without an embedder.
    """

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
        """Allows one plan at a time, because planning is CPU-bound."""

    async def sections(self) -> tuple[EditableSection, ...]:
        """Return the editable sections of the configuration file with their text.

        Raises:
            ConfigurationError: If there is no file, or it is invalid.
        """
        return await anyio.to_thread.run_sync(read_sections, await self._path())

    async def plan(self, sections: Mapping[str, str | list[JSONValue]]) -> PlannedChange:
        """Plan the replacement of some sections.

        Args:
            sections: The new sections by name, each as YAML text or as a list of entries. The
                names are those that `sections` returns.

        Raises:
            ConfigurationError: If a section is invalid. Each problem has the name of the section in
                place of a file, and the line and column within its text.
            ViewNotFoundError: If a section belongs to a view that does not exist.
        """
        texts = {name: _text(section) for name, section in sections.items()}
        plan = partial(self._plan, await self._path(), texts, self._host.view)
        return await anyio.to_thread.run_sync(plan, limiter=self._one)

    async def describe(
        self, planned: PlannedChange, *, price: TokenPrice, view: str | None = None
    ) -> ChangePlan:
        """Return the effects of a planned change.

        Args:
            planned: The result of `plan`.
            price: Returns the number of tokens of a tool's definition. Its results are cached for
                the next plan.
            view: The view whose clients are considered. None for clients without a view, and a
                summary of the changes to each view.

        Raises:
            ViewNotFoundError: If the view exists neither before nor after the change.
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
        """Return the hits of queries before and after a change, as an agent would get them.

        Args:
            projection: The projection of a planned change.
            queries: The texts of the queries.
            view: The view that the agent uses; None for none.
            limit: The maximum number of hits per query.
        """
        queries = tuple(queries)
        vectors = {query: await self._embed(query) for query in queries}

        def run() -> tuple[QueryMove, ...]:
            moves = projection.compare(queries, view=view, limit=limit, vectors=vectors)
            return tuple(moves)

        return await anyio.to_thread.run_sync(run, limiter=self._one)

    async def apply(self, planned: PlannedChange) -> None:
        """Back up and write the file, then reload the configuration; a no-op for an empty change.

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
        with (
            gc_pause.paused()
        ):  # the new objects live as long as the plan, so collection frees nothing
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
    """Caches the token counts of one plan, and reuses those of the plan before."""

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
