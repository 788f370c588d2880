"""Webhooks as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import to_builtins

if TYPE_CHECKING:
    from collections.abc import Iterable

    from discovery_engine._util.json import JSONObject
    from discovery_engine.diagnostics import Diagnostic
    from discovery_engine.engine.owner.configured_webhooks import WebhookReport, WebhookTest


def webhooks_form(reports: Iterable[WebhookReport], refusal: Diagnostic | None) -> JSONObject:
    """All of them, and why those of the file do not count."""
    return {
        "webhooks": [_webhook_form(report) for report in reports],
        "refusal": refusal.to_json() if refusal else None,
    }


def _webhook_form(report: WebhookReport) -> JSONObject:
    return {
        "name": report.name,
        "condition": report.condition,
        "url": report.url,
        "events": list(report.events),
        "servers": list(report.servers),
        "enabled": report.is_enabled,
        **to_builtins(report.state),
        "failure": report.state.failure or None,
        "problem": report.problem or None,
    }


def webhook_test_form(test: WebhookTest) -> JSONObject:
    return {
        "webhook": test.webhook,
        "event_id": test.event_id,
        "accepted": test.is_accepted,
        "status": test.status,
        "reason": test.reason or None,
        "hint": test.hint or None,
        "seconds": test.seconds,
    }
