"""Changes to rules, overrides and synonyms, with a preview of their effects: `engine.changes`.

    planned = await engine.changes.plan({"toolRules": '- {pattern: "*delete*", enabled: false}'})
    print(planned.edit.diff, planned.projection.plan(price=...))
    await engine.changes.apply(planned)

A plan is computed from the current catalog of the engine. Planning starts no server and writes
nothing, and the catalog that agents use does not change.

In a registry that machines share, rules are kept there, before those of the file, for all of them:
`toolRules` then names the section of the registry, `file.toolRules` that of the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util import gc_pause
from discovery_engine.config.editing.edit import Edit, not_edited, set_serve_mode
from discovery_engine.config.editing.section_edit import (
    RULES,
    EditableSection,
    SectionEdit,
    diff_texts,
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
from discovery_engine.errors import PlanChangedError

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue
    from discovery_engine.catalog import Entry
    from discovery_engine.config.editing.yaml_text import Entries
    from discovery_engine.config.serve_settings import ServeMode
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.engine.engine import Engine
    from discovery_engine.tools.model import Tool
    from discovery_engine.view.view import View

_COMPARED = 10  # hits of an answer


class PlannedChange(Struct, frozen=True):
    edit: SectionEdit
    """The change of the file."""
    before: Mapping[str, str]
    """The rules in the registry, by section."""
    rules: Mapping[str, str]
    """The rules that replace them; other sections have none."""
    projection: Projection

    @property
    def diff(self) -> str:
        """Return the unified diff of what changes, without the values of pinned arguments."""
        shared = diff_texts("the registry", self.before, self.rules)
        return shared if shared and self.edit.edit.is_empty else shared + self.edit.diff

    @property
    def is_empty(self) -> bool:
        return self.edit.edit.is_empty and not self.has_other_rules

    @property
    def has_other_rules(self) -> bool:
        """True if it changes rules in the registry."""
        return any(self.before.get(name, "") != text for name, text in self.rules.items())

    @property
    def place(self) -> str:
        """Return what it changes, in words."""
        return "the registry" if self.rules else str(self.edit.edit.path)

    @property
    def digest(self) -> str:
        """Return the SHA-256, in hex, of the digests of what is there before and after."""
        edit = self.edit.edit
        rules = (repr(sorted(texts.items())).encode() for texts in (self.before, self.rules))
        contents = edit.before or b"", edit.after.encode(), *rules
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
    """Plans and applies changes; available as `engine.changes`."""

    def __init__(self, engine: Engine, core: EngineCore) -> None:
        self._engine = engine
        self._core = core
        self._prices: Mapping[Tool, int] = {}
        self._limiter = anyio.CapacityLimiter(1)
        """Allows one plan at a time, because planning is CPU-bound."""

    async def sections(self) -> tuple[EditableSection, ...]:
        """Return the editable sections of the configuration with their text.

        Raises:
            ConfigurationError: If there is no file, or it is invalid.
            RegistryError: If the rules in the registry cannot be read.
        """
        path = await self._path()
        core = self._core
        texts = await anyio.to_thread.run_sync(core.store.shared_rules, core.decision_scope)
        own = await anyio.to_thread.run_sync(read_sections, path)
        shared_names = RULES if self._is_shared else [name for name in RULES if name in texts]
        shared = [
            EditableSection(self._name(name, "registry"), texts.get(name, ""), 0, "registry")
            for name in shared_names
        ]
        return (*shared, *(replace(one, name=self._name(one.name, "file")) for one in own))

    @property
    def _is_shared(self) -> bool:
        """True if rules are kept in the registry, unless the file is named."""
        return self._core.store.gateways is not None

    def _name(self, section: str, where: Literal["file", "registry"]) -> str:
        is_usual = section not in RULES or where == ("registry" if self._is_shared else "file")
        return section if is_usual else f"{where}.{section}"

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
        plan = partial(self._plan, await self._path(), *self._placed(texts), self._engine.view)
        return await anyio.to_thread.run_sync(plan, limiter=self._limiter)

    async def plan_mode(self, mode: ServeMode) -> Edit:
        """Plan to set `server.mode` in the file.

        Raises:
            ConfigurationError: If there is no file, or it does not load.
        """
        return await anyio.to_thread.run_sync(set_serve_mode, await self._path(), mode)

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

        plan = await anyio.to_thread.run_sync(run, limiter=self._limiter)
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
        embed = self._core.semantic.embed_query
        vectors = {query: (await embed(query)).vectors for query in queries}

        def run() -> tuple[QueryMove, ...]:
            moves = projection.compare(queries, view=view, limit=limit, vectors=vectors)
            return tuple(moves)

        return await anyio.to_thread.run_sync(run, limiter=self._limiter)

    async def apply(self, planned: PlannedChange) -> None:
        """Back up and write the file, or write the rules of the registry, and have both in force.

        A no-op for an empty change.

        Raises:
            ConfigurationError: If the file or the rules of the registry have changed since the
                plan, or the file cannot be written.
            RegistryError: If the rules cannot be written.
        """
        if not planned.is_empty:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._write, planned)
                await self._engine.reload()

    def _write(self, planned: PlannedChange) -> None:
        core = self._core
        scope, before, at = core.decision_scope, planned.before, core.environment.clock()
        if planned.has_other_rules and not core.store.set_rules(
            scope, planned.rules, before=before, at=at
        ):
            message, hint = "its rules have changed in the meantime", "make the change again"
            raise not_edited("the registry", message, hint)
        planned.edit.edit.apply()

    async def _path(self) -> Path:
        await self._engine.complete_settings()
        path = self._engine.view.settings.path
        if path is None:
            hint = "`discovery init` writes one"
            message = "there is no file that could be changed"
            raise not_edited("configuration", message, hint)
        return Path(path)

    def _placed(self, texts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the texts for the file, and those for the registry."""
        shared = {self._name(section, "registry"): section for section in RULES}
        own = {self._name(section, "file"): section for section in RULES}
        return (
            {own.get(name, name): text for name, text in texts.items() if name not in shared},
            {shared[name]: text for name, text in texts.items() if name in shared},
        )

    def _plan(
        self, path: Path, texts: Mapping[str, str], rules: Mapping[str, str], view: View
    ) -> PlannedChange:
        core, edit = self._core, edit_sections(path, texts)
        before = core.store.shared_rules(core.decision_scope)
        shared = {**before, **rules} if rules else None
        changed = core.configuration.preview(edit.edit.after.encode(), shared)
        # The new objects live as long as the plan, so collecting garbage would free nothing.
        with gc_pause.paused():
            projection = project_view(
                view.snapshot(),
                changed,
                decided=core.state.trust_store.decided,
                store=core.store,
                secrets=core.environment.secrets,
                environ=core.environment.variables,
            )
        return PlannedChange(edit, before, rules, projection)


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
