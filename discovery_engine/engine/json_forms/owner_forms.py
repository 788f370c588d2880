"""JSON forms of the owner's decisions and changes: approvals, reviews, plans, webhooks.

Of what would be started nothing is cut, and nothing is hidden that decides what runs. No form holds
a secret.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec import to_builtins

from discovery_engine.config.serialization import (
    serialize,
    serialize_oauth,
    serialize_redacted,
    serialize_server,
    serialize_server_redacted,
)
from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.engine.json_forms import all_fields, fields
from discovery_engine.engine.owner.candidates import findings_in
from discovery_engine.secrets.redactor import Redactor
from discovery_engine.secrets.references import MalformedReferenceError, redact_literals, split
from discovery_engine.secrets.values import secrets_in
from discovery_engine.store.call_log.contents import GUESSING
from discovery_engine.upstream.identity import shown_value

if TYPE_CHECKING:
    from pathlib import Path

    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_engine.config.editing.section_edit import EditableSection
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.config.sources.source_reader import PastedServer
    from discovery_engine.engine.catalog_state import ReindexReport
    from discovery_engine.engine.owner.candidates import Candidate
    from discovery_engine.engine.owner.change_plan import ChangePlan, QueryMove
    from discovery_engine.engine.owner.configuration_changes import PlannedChange
    from discovery_engine.engine.owner.configured_webhooks import WebhookReport, WebhookTest
    from discovery_engine.engine.owner.fleet import FleetStatus
    from discovery_engine.engine.owner.server_plans import ServerPlan
    from discovery_engine.engine.owner.setup_sync import SyncPlan
    from discovery_engine.errors import Diagnostic
    from discovery_engine.store.refresh_job import RefreshJob
    from discovery_engine.trust.definition_diff import Change
    from discovery_engine.trust.lockfile import Deviation
    from discovery_engine.trust.review import Review
    from discovery_engine.view.view import View

_MAX_SHOWN_CHANGES = 200  # changes of a kind; of more there is only the count


def candidate_form(candidate: Candidate) -> JSONObject:
    """A server that waits for approval."""
    server = candidate.server
    form: JSONObject = {
        "name": server.name,
        "origin": place_of(candidate),
        **fields(candidate.refused, "reason=refusal change=detail"),
        **fields(candidate.subject, "identity=digest program"),
        "files": dict(candidate.files),
        "description": server.description,
        "notes": list(candidate.notes),
        "findings": [finding.to_json() for finding in candidate.findings],
    }
    match server.transport:
        case StdioTransport(command, args, env, cwd, sandbox):
            return form | {
                "command": [command, *args],
                "env": {
                    name: shown_value(name, text, is_secret=True) for name, text in env.items()
                },
                "cwd": cwd,
                "sandbox": to_builtins(sandbox) if sandbox else None,
            }
        case RemoteTransport(url, headers, kind):
            hidden = {name: redact_literals(text) for name, text in headers.items()}
            form |= {"url": url, "headers": hidden, "transport": kind}
            return form | {"oauth": dict(oauth_facts(server.transport))}
        case None:
            return form


def override_forms(settings: Settings) -> list[JSONObject]:
    """The overrides of the file: texts that agents read, and pinned arguments."""
    return [
        {
            "origin": str(override.origin),
            **fields(override, "servers tools=patterns name description arguments"),
            "findings": [finding.to_json() for finding in findings_in(override.description or "")],
        }
        for override in settings.overrides
    ]


def place_of(candidate: Candidate) -> str:
    """The file of its entry, or the registry."""
    return str(candidate.server.origin) or candidate.server.source


def oauth_facts(remote: RemoteTransport) -> Iterator[tuple[str, str]]:
    """The keys of `oauth` that are set; a secret only as its reference."""
    for name, value in serialize_oauth(remote).items():
        yield name, value if isinstance(value, str) else " ".join(value)


def reviewed_server_form(server: str, reviews: Sequence[Review]) -> JSONObject:
    return {"name": server, "reviews": list(map(review_form, reviews))}


def review_form(review: Review) -> JSONObject:
    return {
        **_review_head(review),
        "fingerprint": review.acceptance.meaning,
        "findings": [finding.to_json() for finding in review.findings],
        "changes": list(map(definition_change_form, review.changes)),
        "now": review.after,
    }


def review_summary_form(server: str, reviews: Sequence[Review]) -> JSONObject:
    """Return the number of changes of a server that wait, without their texts."""
    return {
        "name": server,
        "waiting_count": len(reviews),
        "finding_count": sum(len(review.findings) for review in reviews),
        "waiting": list(map(_review_head, reviews)),
    }


def _review_head(review: Review) -> JSONObject:
    state = "pending" if review.before is None else "changed"
    return {"tool": review.tool or None, "state": state, "weight": review.weight}


def deviation_form(deviation: Deviation) -> JSONObject:
    """A server or tool that differs from the lock file."""
    return {
        **deviation.to_json(),
        **fields(deviation, "what server"),
        "tool": deviation.tool or None,
        "weight": deviation.weight,
        "changes": list(map(definition_change_form, deviation.changes)),
    }


def definition_change_form(change: Change) -> JSONObject:
    """`words` has the parts of both texts in order: `same`, `removed` or `added`."""
    texts = change.before, change.after
    words = word_diff(*texts) if all(isinstance(text, str) for text in texts) else None
    return {
        "weight": change.weight,
        "path": change.path,
        "before": change.before,
        "after": change.after,
        "words": words and all_fields(words, "kind text"),
    }


def server_plan_form(plan: ServerPlan, *, is_written: bool) -> JSONObject:
    """A change of a configured server: what it would write."""
    return {
        **fields(plan, "name where diff warnings"),
        "path": str(plan.edit.path) if plan.edit else None,
        "written": is_written,
        "secrets": list(plan.secrets),  # their names
        **copy_form(plan),
    }


def copy_form(plan: ServerPlan) -> JSONObject:
    """Return the origin in another client's file, and the changes; empty if nothing is copied."""
    if plan.original is None:
        return {}
    origin = plan.original.origin
    source = {"source": plan.original.source, "client": origin.client, "path": origin.file}
    return {"copied_from": source, "changes": plan.changes}


def shown_plan_form(plan: ServerPlan, settings: Settings) -> JSONObject:
    """A plan under these settings, for those who read no file: without secrets of the file."""
    form = server_plan_form(plan, is_written=False)
    hidden = {key: shown_diff(form[key], settings) for key in ("diff", "changes") if key in form}
    return form | {"verb": plan.verb} | hidden


def sync_plan_form(plan: SyncPlan, *, is_written: bool) -> JSONObject:
    form = {"path": str(plan.path), "written": is_written}
    return form | fields(plan.report, "registered activated skipped errors")


def shown_sync_form(plan: SyncPlan, settings: Settings) -> JSONObject:
    """The same with what each server would run."""
    forms = [shown_plan_form(server_plan, settings) for server_plan in plan.plans]
    return sync_plan_form(plan, is_written=False) | {"plans": forms}


def server_entry_form(server: ServerSettings) -> JSONObject:
    """The entry of a server, with references as they are written, and without values."""
    return {
        **fields(server, "name source"),
        "origin": str(server.origin),
        "entry": serialize_server_redacted(server),
    }


def pasted_form(pasted: PastedServer) -> JSONObject:
    """A server of a pasted text, with what its own text has in it, for who pasted it."""
    entry = serialize_server(pasted.server) if pasted.server else None
    return {"name": pasted.name, "entry": entry, **fields(pasted, "notes problem")}


def section_form(section: EditableSection) -> JSONObject:
    return fields(section, "name text where") | {"line": section.line or None}


def change_form(planned: PlannedChange, plan: ChangePlan, moves: Sequence[QueryMove]) -> JSONObject:
    """A change of the configuration; of long lists the first 200, and the counts of all."""
    form = plan.to_json()
    for changes in (form, *form["views"]):
        for key in ("tools", "offerings"):
            changes[f"{key}_counts"] = _counts(changes[key])
            changes[key] = changes[key][:_MAX_SHOWN_CHANGES]
    return {
        "problems": [],
        **form,
        "queries": [_move_form(move) for move in moves],
        "diff": planned.diff,
        "digest": planned.digest,
    }


def _move_form(move: QueryMove) -> JSONObject:
    pairs = {"decision": move.decision, "confidence": move.confidence}
    return {
        **fields(move, "query before after moved=has_moved"),
        **{name: {"before": before, "after": after} for name, (before, after) in pairs.items()},
    }


def _counts(changes: Sequence[JSONObject]) -> JSONObject:
    counts = Counter(change["what"] for change in changes)
    return {what: counts[what] for what in ("appears", "vanishes", "changes")}


def cache_form(view: View, path: Path, now: float) -> JSONObject:
    """The stored catalog; `path` is that of the registry, `now` is Unix time in seconds."""
    return {
        "path": str(path),
        "decisions_kept_for": view.settings.name or view.settings.path,
        "size_bytes": size_of(path),
        "ttl_seconds": view.settings.cache.ttl,
        "tool_count": len(view.catalog),
        "servers": [
            {
                "name": part.server,
                "tool_count": len(part.entries),
                "listed_at": part.listed_at,
                "age_seconds": now - part.listed_at if part.listed_at else None,
                "is_stale": part.is_stale,
            }
            for part in view.catalog.parts.values()
        ],
    }


def reindex_form(report: ReindexReport) -> JSONObject:
    return fields(report, "tool_count=tools vector_count=vectors")


def size_of(path: Path) -> int:
    """The size of a file in bytes; 0 if it does not exist."""
    return path.stat().st_size if path.exists() else 0


def fleet_form(status: FleetStatus, jobs: Iterable[RefreshJob]) -> JSONObject:
    """The refresh queue, with some of its jobs."""
    oldest = status.oldest_due
    return {
        "counts": dict(status.counts),
        "oldest_due": oldest and {"server": oldest.server, "seconds": status.seconds_overdue},
        "jobs": list(map(job_form, jobs)),
        "recent_activity": list(map(job_form, status.recent_activity())),
        "recent_registrations": [job.server for job in status.recent_registrations()],
        **fields(status, "embedding_count now newest_decision"),
        "gateways": to_builtins(status.gateways),
    }


def job_form(job: RefreshJob) -> JSONObject:
    return {
        **fields(job, "server state due_at priority attempts"),
        "worker": job.holder if job.state == "processing" else None,
        **fields(job, "claimed_at lease_until listed_at tool_count created_at failing_since"),
        "error": {"code": job.error_code, "message": job.error_message} if job.error_code else None,
    }


def webhooks_form(reports: Iterable[WebhookReport], refusal: Diagnostic | None) -> JSONObject:
    """Describe all webhooks, and the reason for which those of the file are ignored, if any."""
    return {
        "webhooks": [_webhook_form(report) for report in reports],
        "refusal": refusal.to_json() if refusal else None,
    }


def _webhook_form(report: WebhookReport) -> JSONObject:
    return {
        **fields(report, "name condition url events servers enabled=is_enabled"),
        **to_builtins(report.state),
        "failure": report.state.failure or None,
        "problem": report.problem or None,
    }


def webhook_test_form(test: WebhookTest) -> JSONObject:
    return {
        **fields(test, "webhook event_id accepted=is_accepted status"),
        "reason": test.reason or None,
        "hint": test.hint or None,
        "seconds": test.seconds,
    }


_LONG = 500  # characters; a file in one line holds entries that could not be read


def shown_diff(diff: str, settings: Settings) -> str:
    """A diff without what is secret in the configuration of before, also around the change."""
    redactor = Redactor(_written_secrets(settings))
    return "".join(_shown(line, redactor) for line in diff.splitlines(keepends=True))


def _shown(line: str, redactor: Redactor) -> str:
    text = redactor.redact(line)
    # What was there may be of an entry that cannot be read, whose secrets are not known.
    was_there = line.startswith(("-", " ", "@")) or len(line) > _LONG
    return GUESSING.redact(text) if was_there else text


def _written_secrets(settings: Settings) -> Iterator[str]:
    """Yield what looks like a secret in texts that are redacted where settings are shown."""
    for name, text in _hidden(serialize(settings), serialize_redacted(settings), ""):
        try:
            literals = [part for part in split(text) if isinstance(part, str)]
        except MalformedReferenceError:
            literals = [text]
        for literal in literals:
            yield from (secret.text for secret in secrets_in(literal, name))


def _hidden(value: JSONValue, redacted: JSONValue, name: str) -> Iterator[tuple[str, str]]:
    """Texts that differ from their redacted form, with the names that they stand under."""
    match value, redacted:
        case dict(), dict():
            for key, part in value.items():
                yield from _hidden(part, redacted.get(key), key)
        case list(), list():
            for part, other in zip(value, redacted, strict=False):
                yield from _hidden(part, other, name)
        case str(), _ if value != redacted:
            yield name, value


PartKind: TypeAlias = Literal["same", "removed", "added"]

_WORD = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
# Pairs of words that differ: 5 ms; more words are one change, in quadratic time.
_MAX_WORD_PAIRS = 200 * 200


class Part(NamedTuple):
    kind: PartKind
    text: str


def word_diff(before: str, after: str) -> list[Part]:
    """Return the parts that both texts have, that are gone, and that are new, in order.

    The parts that are not new make up `before`, those that are not gone `after`.
    """
    old, new = _WORD.findall(before), _WORD.findall(after)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    middle = old[head : len(old) - tail], new[head : len(new) - tail]
    parts = [
        Part("same", "".join(old[:head])),
        *_differences(*middle),
        Part("same", "".join(old[len(old) - tail :])),
    ]
    return [part for part in parts if part.text]


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the number of words that both begin with."""
    pairs = zip(left, right, strict=False)
    return next(
        (number for number, (a, b) in enumerate(pairs) if a != b), min(map(len, (left, right)))
    )


def _differences(old: list[str], new: list[str]) -> list[Part]:
    if len(old) * len(new) > _MAX_WORD_PAIRS:
        return [Part("removed", "".join(old)), Part("added", "".join(new))]
    parts = []
    for kind, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(Part("same", "".join(old[i:j])))
        else:
            parts += [Part("removed", "".join(old[i:j])), Part("added", "".join(new[k:m]))]
    return parts
