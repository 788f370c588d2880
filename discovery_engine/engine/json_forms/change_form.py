"""A change of rules, overrides or synonyms that is planned: what it does, and how queries move."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import to_builtins

from discovery_engine.evaluation.baseline import Baseline, metric_changes, query_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.editing.section_edit import EditableSection
    from discovery_engine.engine.owner.change_plan import ChangePlan, QueryMove
    from discovery_engine.engine.owner.configuration_changes import PlannedChange
    from discovery_engine.engine.owner.eval_cases import CaseFile, CaseRun

_MAX_SHOWN_CHANGES = 200  # changes of a kind; of more there is only the count


def section_form(section: EditableSection) -> JSONObject:
    return {"name": section.name, "text": section.text, "line": section.line or None}


def change_form(planned: PlannedChange, plan: ChangePlan, moves: Sequence[QueryMove]) -> JSONObject:
    """A plan; of long lists the first 200, and the counts of all."""
    form = plan.to_json()
    for changes in (form, *form["views"]):
        for key in ("tools", "offerings"):
            changes[f"{key}_counts"] = _counts(changes[key])
            changes[key] = changes[key][:_MAX_SHOWN_CHANGES]
    return {
        "problems": [],
        **form,
        "queries": [_move_form(move) for move in moves],
        "diff": planned.edit.diff,
        "digest": planned.digest,
    }


def case_file_form(file: CaseFile) -> JSONObject:
    return {"path": str(file.path), "cases": [to_builtins(case) for case in file.cases]}


def case_run_form(run: CaseRun) -> JSONObject:
    """A run; with one after a change, what moves between the two."""
    form: JSONObject = {"before": run.before.to_json(), "after": None, "moves": [], "changes": []}
    if run.after is None:
        return form
    baseline, other = Baseline.of(run.before), Baseline.of(run.after)
    return form | {
        "after": run.after.to_json(),
        "moves": [move.to_json() for move in query_changes(baseline, other)],
        "changes": [change.to_json() for change in metric_changes(baseline, other)],
    }


def _move_form(move: QueryMove) -> JSONObject:
    pairs = {"decision": move.decision, "confidence": move.confidence}
    return {
        "query": move.query,
        "before": list(move.before),
        "after": list(move.after),
        "moved": move.has_moved,
        **{name: {"before": before, "after": other} for name, (before, other) in pairs.items()},
    }


def _counts(changes: Sequence[JSONObject]) -> JSONObject:
    counts = Counter(change["what"] for change in changes)
    return {what: counts[what] for what in ("appears", "vanishes", "changes")}
