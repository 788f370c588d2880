"""An endpoint that completes chats by OpenAI's protocol: OpenAI itself, Ollama, vLLM and others.

Its answer is untrusted: it is read up to a limit, and of an error nothing is shown but the number
of its status. What may pass is tried again, later each time, and no sooner than the endpoint asks.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import httpx2
from msgspec import Struct

from discovery_engine._util.retry_after import backoff, retry_after
from discovery_engine.config.syntax import mounts_for
from discovery_engine.evaluation.enrichment.enrichment_error import EnrichmentError

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue

_MOST_BYTES = 256 * 1024  # a thousand times what six requests take
_TRIES = 5
_FIRST_PAUSE = 1.0  # seconds; doubled after each failure
_LONGEST_PAUSE = 30.0
_LONGEST_WAIT = 120.0  # seconds that an endpoint may ask to wait; for longer the command ends
_PASSING = {408, 409, 425, 429}
_FAILED = 500  # and all from there may pass, too
_FINAL = {401: "check `enrich.apiKey`", 403: "check `enrich.apiKey`"} | {
    404: "check `enrich.url` and `enrich.model`"
}


class Completion(Struct, frozen=True):
    text: str
    tokens: int
    """That were billed, by the endpoint's own count; 0 if it gave none."""


class Endpoint:
    """Made by `open_endpoint`. Many tasks may ask at once."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        url: str,
        *,
        model: str,
        key: str = "",
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._client = client
        self._address = f"{url.rstrip('/')}/chat/completions"
        self._model = model
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._sleep = sleep

    async def complete(self, system: str, user: str) -> Completion:
        """The answer to one message.

        Raises:
            EnrichmentError: If there is none.
        """
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        request: JSONObject = {"model": self._model, "messages": messages}
        for tries in range(1, _TRIES):
            try:
                return _completion(await self._post(request))
            except _PassingError as error:
                pause = error.retry_after
                if pause is None:
                    pause = backoff(tries, _FIRST_PAUSE, _LONGEST_PAUSE)
                if pause > _LONGEST_WAIT:
                    error.is_final = True
                    raise
            await self._sleep(pause)
        return _completion(await self._post(request))

    async def _post(self, request: JSONObject) -> bytes:
        content = bytearray()
        try:
            async with self._client.stream(
                "POST", self._address, json=request, headers=self._headers
            ) as response:
                if not response.is_success:
                    raise _failure(response)
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > _MOST_BYTES:
                        raise EnrichmentError.of_answer("the endpoint's answer is too long")
        except httpx2.TimeoutException as error:
            hint = "raise `enrich.timeout`"
            raise _PassingError.of_answer(
                "the endpoint did not answer in time", hint=hint
            ) from error
        except (httpx2.ConnectError, httpx2.InvalidURL) as error:
            hint = "check `enrich.url`, and that it can be reached from here"
            raise _PassingError("the endpoint cannot be reached", hint=hint) from error
        except httpx2.HTTPError as error:
            raise _PassingError.of_answer("the connection was cut") from error
        return bytes(content)


@asynccontextmanager
async def open_endpoint(
    url: str,
    *,
    model: str,
    key: str,
    timeout: float,  # noqa: ASYNC109 - of each request
) -> AsyncIterator[Endpoint]:
    """Yield the endpoint at an address; redirects are not followed."""
    # No compression: a small answer must not become a large one.
    headers = {"Accept-Encoding": "identity"}
    mounts = mounts_for(url)
    async with httpx2.AsyncClient(timeout=timeout, headers=headers, mounts=mounts) as client:
        yield Endpoint(client, url, model=model, key=key)


class _PassingError(EnrichmentError):
    """A failure that may pass."""

    retry_after: float | None = None
    """Seconds that the endpoint asks to wait."""


def _failure(response: httpx2.Response) -> EnrichmentError:
    status = response.status_code
    reason = f"the endpoint answered with status {status}"
    if status in _PASSING or status >= _FAILED:
        error = _PassingError.of_answer(reason, hint="run it again later")
        error.retry_after = retry_after(response.headers.get("retry-after", ""))
        return error
    if hint := _FINAL.get(status):
        return EnrichmentError(reason, hint=hint)
    return EnrichmentError.of_answer(reason, hint="check `enrich.url` and `enrich.model`")


def _completion(content: bytes) -> Completion:
    try:
        answer = json.loads(content)
        text = answer["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise EnrichmentError.of_answer(
            "the endpoint's answer is no chat completion",
            hint="`enrich.url` is the address before `/chat/completions`",
        ) from error
    if not isinstance(text, str):
        raise EnrichmentError.of_answer("the endpoint's answer has no text")
    usage: JSONValue = answer.get("usage")
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    return Completion(text, tokens if isinstance(tokens, int) else 0)
