"""Changed definitions: what waits for review, what differs from the lock file, word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine._util.word_diff import word_diff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discovery_engine._util.json import JSONObject
    from discovery_engine.trust.definition_diff import Change
    from discovery_engine.trust.lockfile import Deviation
    from discovery_engine.trust.review import Review


def reviewed_server_form(server: str, found: Sequence[Review]) -> JSONObject:
    return {"name": server, "reviews": list(map(review_form, found))}


def review_form(review: Review) -> JSONObject:
    return {
        "tool": review.tool or None,
        "state": _state(review),
        "weight": review.weight,
        "fingerprint": review.acceptance.meaning,
        "findings": [finding.to_json() for finding in review.findings],
        "changes": list(map(change_form, review.changes)),
        "now": review.after,
    }


def review_summary_form(server: str, found: Sequence[Review]) -> JSONObject:
    """How much waits of a server, without the texts."""
    return {
        "name": server,
        "waiting_count": len(found),
        "finding_count": sum(len(review.findings) for review in found),
        "waiting": [
            {"tool": review.tool or None, "state": _state(review), "weight": review.weight}
            for review in found
        ],
    }


def deviation_form(one: Deviation) -> JSONObject:
    return one.to_json() | {
        "what": one.what,
        "server": one.server,
        "tool": one.tool or None,
        "weight": one.weight,
        "changes": list(map(change_form, one.changes)),
    }


def change_form(change: Change) -> JSONObject:
    """`words` has the parts of both texts in order: `same`, `removed` or `added`."""
    texts = change.before, change.after
    words = word_diff(*texts) if all(isinstance(text, str) for text in texts) else None
    return {
        "weight": change.weight,
        "path": change.path,
        "before": change.before,
        "after": change.after,
        "words": words and [{"kind": part.kind, "text": part.text} for part in words],
    }


def _state(review: Review) -> str:
    return "pending" if review.before is None else "changed"
