"""Routes of webhooks: what waits for each, a test, and what is dead sent again."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.json_forms.webhook_form import webhook_test_form, webhooks_form
from discovery_server.api.route import ApiRequest, ApiRoute, Nothing


class WebhookName(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="The name of the webhook.")]


class RetriedWebhooks(Struct, frozen=True, forbid_unknown_fields=True):
    names: Annotated[
        list[str] | None, Meta(description="Of which webhooks; of all without it.")
    ] = None


class RetryAnswer(Struct, frozen=True):
    retried: Annotated[int, Meta(description="How many dead deliveries are sent again now.")]


async def webhooks(request: ApiRequest[Nothing]) -> JSONObject:
    hooks = request.owner.webhooks
    return webhooks_form(await hooks.list(), await hooks.refusal())


async def test_webhook(request: ApiRequest[WebhookName]) -> JSONObject:
    return webhook_test_form(await request.owner.webhooks.test(request.asked.name))


async def retry_webhooks(request: ApiRequest[RetriedWebhooks]) -> RetryAnswer:
    return RetryAnswer(await request.owner.webhooks.retry(request.asked.names))


ROUTES = (
    ApiRoute("GET", "/webhooks", "Show webhooks, and what waits for each", webhooks, scope="admin"),
    ApiRoute(
        "POST",
        "/webhooks/test",
        "Send a signed test message to a webhook",
        test_webhook,
        WebhookName,
        scope="admin",
    ),
    ApiRoute(
        "POST",
        "/webhooks/retry",
        "Have dead deliveries of webhooks sent again",
        retry_webhooks,
        RetriedWebhooks,
        RetryAnswer,
        scope="admin",
    ),
)
