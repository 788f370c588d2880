"""Changes of definitions for people: old and new text, with hidden characters shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from discovery_cli.scan_findings import suspicion_lines
from discovery_engine._util.text import visible

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue
    from discovery_engine.trust.definition_diff import Change
    from discovery_engine.trust.lockfile import Deviation
    from discovery_engine.trust.review import Review


def review_lines(review: Review) -> Iterator[str]:
    """A tool or the instructions: findings, and the changes, or the whole of a new text."""
    is_new = review.before is None
    yield f"  {_name(review)}: {'new' if is_new else review.weight or 'changed'}"
    yield from (f"    {line}" for line in suspicion_lines(review.findings))
    yield from _value_lines("+", review.after) if is_new else change_lines(review.changes)


def deviation_lines(one: Deviation) -> Iterator[str]:
    """One server or tool that differs from the lock file."""
    yield f"{one.message}  {visible(one.subject)} [{one.code}]"
    yield from change_lines(one.changes)


def change_lines(changes: Iterable[Change]) -> Iterator[str]:
    for change in changes:
        yield f"    {change.weight:<10}  {visible(change.path)}"
        yield from _value_lines("-", change.before)
        yield from _value_lines("+", change.after)


def _name(review: Review) -> str:
    return visible(review.tool) if review.tool else "the server's instructions"


def _value_lines(sign: str, value: JSONValue) -> Iterator[str]:
    if value is None:
        return
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    yield from (f"      {sign} {line}".rstrip() for line in visible(text).splitlines() or [""])
