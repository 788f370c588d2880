"""Changes of definitions for people: old and new text, with hidden characters shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from discovery_cli.scan_findings import suspicion_lines
from discovery_engine._util.text import visible

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_engine.trust.definition_diff import Change
    from discovery_engine.trust.lockfile import Deviation
    from discovery_engine.trust.review import Review


def review_lines(review: Review) -> Iterator[str]:
    """A tool or the instructions: findings, and the changes, or the whole of a new text."""
    is_new = review.before is None
    yield f"  {_name(review)}: {'new' if is_new else review.weight or 'changed'}"
    yield from (f"    {line}" for line in suspicion_lines(review.findings))
    yield from _value_lines("+", review.after) if is_new else change_lines(review.changes)


def review_form(review: Review) -> JSONObject:
    return {
        "tool": review.tool or None,
        "state": "pending" if review.before is None else "changed",
        "weight": review.weight,
        "fingerprint": review.acceptance.meaning,
        "findings": [finding.to_json() for finding in review.findings],
        "changes": list(map(change_form, review.changes)),
        "now": review.after,
    }


def deviation_lines(one: Deviation) -> Iterator[str]:
    """One server or tool that differs from the lock file."""
    yield f"{one.message}  {visible(one.subject)} [{one.code}]"
    yield from change_lines(one.changes)


def deviation_form(one: Deviation) -> JSONObject:
    return one.to_json() | {
        "what": one.what,
        "server": one.server,
        "tool": one.tool or None,
        "weight": one.weight,
        "changes": list(map(change_form, one.changes)),
    }


def change_lines(changes: Iterable[Change]) -> Iterator[str]:
    for change in changes:
        yield f"    {change.weight:<10}  {visible(change.path)}"
        yield from _value_lines("-", change.before)
        yield from _value_lines("+", change.after)


def change_form(change: Change) -> JSONObject:
    return {
        "weight": change.weight,
        "path": change.path,
        "before": change.before,
        "after": change.after,
    }


def _name(review: Review) -> str:
    return visible(review.tool) if review.tool else "the server's instructions"


def _value_lines(sign: str, value: JSONValue) -> Iterator[str]:
    if value is None:
        return
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    yield from (f"      {sign} {line}".rstrip() for line in visible(text).splitlines() or [""])
