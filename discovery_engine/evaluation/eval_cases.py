"""The owner's evaluation cases, each a query with its right tools: `engine.cases`.

They are stored in a file beside the configuration, which `discovery tune eval` reads. Adding or
removing a case preserves the comments and the order of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct, to_builtins

from discovery_engine._util.suggestions import nearest
from discovery_engine.config.editing import yaml_text
from discovery_engine.config.editing.edit import Edit, FileText, not_edited, read_file
from discovery_engine.config.files.location import CASE_FILE
from discovery_engine.engine.owner.planned_changes import Sight
from discovery_engine.errors import ConfigurationError, NotFoundError
from discovery_engine.evaluation.baseline import Baseline, metric_changes, query_changes
from discovery_engine.evaluation.queries import QueryCase, read_cases, read_queries
from discovery_engine.evaluation.report import Report, run

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine.engine import Engine
    from discovery_engine.engine.owner.change_plan import Projection
    from discovery_engine.evaluation.report import Cost
    from discovery_engine.view.view import View

_KEY = ("queries",)


class CaseFile(Struct, frozen=True):
    """The file of cases and its content."""

    path: Path
    cases: tuple[QueryCase, ...]
    """The cases in the order of the file; empty if the file does not exist."""


class CaseRun(Struct, frozen=True):
    """The reports of running all cases, with and without a planned change."""

    before: Report
    """The report with the current catalog."""
    after: Report | None
    """The report after the planned change; None if none was given."""


class EvalCases:
    """Reads, edits and runs the cases; available as `engine.cases`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list(self) -> CaseFile:
        """Read the file of cases.

        Raises:
            ConfigurationError: If there is no configuration file, or the cases are invalid.
        """
        file = await anyio.to_thread.run_sync(read_file, self._path())
        return CaseFile(file.path, _cases(file))

    async def add(
        self, query: str, tools: Sequence[str] = (), *, server: str = "", name: str = ""
    ) -> QueryCase:
        """Append a case and return it.

        Args:
            query: The query as an agent words it.
            tools: The right tools, any of which is a correct answer. If empty, the correct answer
                is that nothing fits.
            server: The server to which the query is restricted; empty for all.
            name: The id of the case, which stays the same when the query is reworded; if
                empty, the query and its server are the id.

        Raises:
            ConfigurationError: If agents cannot find one of the tools, the case exists already, or
                the file cannot be edited.
        """
        entry: JSONObject = {"query": query}
        entry |= {"server": server} if server else {}
        entry |= {"tools": list(tools)} if tools else {"none": True}
        entry |= {"id": name} if name else {}
        cases = await self._edit(lambda text: _with_case(text, entry))
        return cases[-1]

    async def remove(self, name: str) -> None:
        """Remove the case with the id `name`.

        Raises:
            NotFoundError: If there is no such case; the error suggests the nearest ids.
            ConfigurationError: If the file cannot be read or edited.
        """
        ids = [case.id for case in (await self.list()).cases]
        if name not in ids:
            raise NotFoundError(f"there is no case {name!r}", nearest(name, ids))
        index = ids.index(name)
        await self._edit(lambda text: yaml_text.without_item(text, _KEY, index))

    async def run(
        self, *, cost: Cost, view: str | None = None, change: Projection | None = None
    ) -> CaseRun:
        """Search for the query of each case, by words only; cases with missing tools are skipped.

        Args:
            cost: Returns the number of tokens of an answer.
            view: The view that the agent uses; None for none.
            change: The projection of a planned change; if given, the cases are also run after it.

        Raises:
            ConfigurationError: See `list`.
        """
        sides = (change.before, change.after) if change else (self._engine.view.snapshot(),)
        return await anyio.to_thread.run_sync(partial(_run, self._path(), sides, view, cost))

    def _path(self) -> Path:
        path = self._engine.view.settings.path
        if path is None:
            hint = "`discovery init` writes one"
            message = "there is no file beside which cases could be kept"
            raise not_edited("configuration", message, hint)
        return Path(path).with_name(CASE_FILE)

    async def _edit(self, change: Callable[[str], str]) -> Sequence[QueryCase]:
        edit = partial(_edited, self._path(), change, self._engine.view)
        return await anyio.to_thread.run_sync(edit)


def _edited(path: Path, change: Callable[[str], str], view: View) -> Sequence[QueryCase]:
    """Edit the file of cases; return the cases that it has afterwards."""
    file = read_file(path)
    _cases(file)
    after = change(file.text)
    changed = FileText(path, after.encode(), after)
    cases = _cases(changed)
    if len(cases) > len(_cases(file)):
        _require_findable(changed, view)
    Edit(path, file.content, after).apply()
    return cases


def _require_findable(file: FileText, view: View) -> None:
    """Check that agents can find the tools of the last case; other cases are not checked.

    Raises:
        ConfigurationError: If a tool cannot be found.
    """
    last = len(read_cases(file.text.encode(), file=str(file.path))) - 1
    try:
        read_queries(file.text.encode(), file=str(file.path), view=view)
    except ConfigurationError as error:
        own = [
            problem for problem in error.problems if problem.subject.startswith(f"queries.{last}.")
        ]
        if own:
            raise ConfigurationError(own) from None


def _with_case(text: str, entry: JSONObject) -> str:
    plain, end = yaml_text.with_unix_lines(text)
    return yaml_text.with_entries(plain, _KEY, [entry]).replace("\n", end)


def _cases(file: FileText) -> tuple[QueryCase, ...]:
    return read_cases(file.text.encode(), file=str(file.path))


def _run(path: Path, sides: Sequence[View], view: str | None, cost: Cost) -> CaseRun:
    file = read_file(path)
    reports = [_report(file, Sight.of(side, view).shown, cost) for side in sides]
    return CaseRun(reports[0], reports[1] if len(reports) > 1 else None)


def _report(file: FileText, view: View, cost: Cost) -> Report:
    if not _cases(file):
        return Report(())
    content = file.text.encode()
    queries = read_queries(content, file=str(file.path), view=view, allow_missing=True)
    return run(queries, view, cost=cost)


def case_file_form(file: CaseFile) -> JSONObject:
    return {"path": str(file.path), "cases": to_builtins(file.cases)}


def case_run_form(run: CaseRun) -> JSONObject:
    """Return a run as JSON, with the differences if it was also run after a change."""
    form: JSONObject = {"before": run.before.to_json(), "after": None, "moves": [], "changes": []}
    if run.after is None:
        return form
    baseline, other = Baseline.of(run.before), Baseline.of(run.after)
    return form | {
        "after": run.after.to_json(),
        "moves": [move.to_json() for move in query_changes(baseline, other)],
        "changes": [change.to_json() for change in metric_changes(baseline, other)],
    }
