"""An endpoint that completes chats by OpenAI's protocol: OpenAI itself, Ollama, vLLM and others.

Its answer is untrusted: it is read up to a limit, and of an error nothing is shown but the number
of its status. What may pass is tried again, later each time, and no sooner than the endpoint asks.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import anyio
import httpx2
from msgspec import Struct

from discovery_engine._util.retry_after import backoff
from discovery_engine.config.syntax import mounts_for
from discovery_engine.evaluation.enrichment.enrichment_error import EnrichmentError

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue

_MOST_BYTES = 256 * 1024  # a thousand times what six requests take
_TRIES = 5
_FIRST_PAUSE = 1.0  # seconds; doubled after each failure
_LONGEST_PAUSE = 30.0
_LONGEST_WISH = 120.0  # seconds that an endpoint may ask to wait; for longer the command ends
# Enough for a model that reasons; without a limit a steered answer is as long as a model can write.
_MOST_TOKENS = 4096
_LIMITS = ("max_tokens", "max_completion_tokens")
"""Newer models refuse the first name, and other endpoints ignore the second."""
_PASSING = {408, 409, 425, 429}
_LASTING = {
    501,
    505,
}  # of those from 500, which may pass: 529 is "overloaded", 520 to 524 of a proxy
_UNSUITABLE = 400
_REFUSED = {401, 403}
_UNKNOWN = 404
_FAILED = 500  # and all from there


class Completion(Struct, frozen=True):
    text: str
    tokens: int
    """That were billed, by the endpoint's own count; 0 if it gave none."""


class Endpoint:
    """Made by `open_endpoint`. Many tasks may ask at once; calls start one after another."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        url: str,
        *,
        model: str,
        key: str = "",
        per_minute: int,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._address = f"{url.rstrip('/')}/chat/completions"
        self._model = model
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._gap = 60.0 / per_minute
        self._sleep = sleep
        self._clock = clock
        self._turn = anyio.Lock()
        self._next = 0.0
        self._limit = _LIMITS[0]

    async def complete(self, system: str, user: str) -> Completion:
        """The answer to one message.

        Raises:
            EnrichmentError: If there is none.
        """
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        request: JSONObject = {"model": self._model, "messages": messages}
        for tries in range(1, _TRIES + 1):
            try:
                return _completion(await self._answer(request))
            except _PassingError as failure:
                is_too_late = (failure.retry_after or 0.0) > _LONGEST_WISH
                if tries == _TRIES or is_too_late:
                    is_final = failure.is_of_endpoint or is_too_late
                    kind = EnrichmentError if is_final else EnrichmentError.of_answer
                    raise kind(failure.reason, hint=failure.hint) from failure
                pause = backoff(tries, _FIRST_PAUSE, _LONGEST_PAUSE)
                waits = pause if failure.retry_after is None else failure.retry_after
            await self._sleep(waits)
        raise AssertionError("the last try returns or raises")  # pragma: no cover

    async def _wait_for_turn(self) -> None:
        async with self._turn:
            now = self._clock()
            if self._next > now:
                await self._sleep(self._next - now)
            self._next = max(self._next, now) + self._gap

    async def _answer(self, request: JSONObject) -> bytes:
        """The answer to a request, whose length is limited by the name that the model knows."""
        first = self._limit
        try:
            return await self._post({**request, first: _MOST_TOKENS})
        except _UnsuitableError:
            [other] = set(_LIMITS) - {first}
            content = await self._post({**request, other: _MOST_TOKENS})
            self._limit = other
            return content

    async def _post(self, request: JSONObject) -> bytes:
        await self._wait_for_turn()
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
        except httpx2.TimeoutException as exc:
            hint = "raise `enrich.timeout`"
            raise _PassingError("the endpoint did not answer in time", hint=hint) from exc
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            hint = "check `enrich.url`, and that it can be reached from here"
            is_unreachable = isinstance(exc, httpx2.ConnectError | httpx2.InvalidURL)
            raise _PassingError(
                "the endpoint cannot be reached" if is_unreachable else "the connection was cut",
                hint=hint,
                is_of_endpoint=is_unreachable,
            ) from exc
        return bytes(content)


@asynccontextmanager
async def open_endpoint(
    url: str,
    *,
    model: str,
    key: str,
    per_minute: int,
    timeout: float,  # noqa: ASYNC109 - of each request
) -> AsyncIterator[Endpoint]:
    """Yield the endpoint at an address; redirects are not followed."""
    # No compression: a small answer must not become a large one.
    headers = {"Accept-Encoding": "identity"}
    mounts = mounts_for(url)
    async with httpx2.AsyncClient(timeout=timeout, headers=headers, mounts=mounts) as client:
        yield Endpoint(client, url, model=model, key=key, per_minute=per_minute)


class _PassingError(Exception):
    """A failure that may pass."""

    def __init__(
        self,
        reason: str,
        *,
        hint: str = "",
        retry_after: float | None = None,
        is_of_endpoint: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.retry_after = retry_after
        self.is_of_endpoint = is_of_endpoint
        """True if the failure would be the same for every other tool."""


class _UnsuitableError(EnrichmentError):
    """The endpoint refuses what a request has: maybe the name of the limit, maybe the tool."""


def _failure(response: httpx2.Response) -> Exception:
    status = response.status_code
    reason = f"the endpoint answered with status {status}"
    if status in _PASSING or (status >= _FAILED and status not in _LASTING):
        return _PassingError(reason, hint="run it again later", retry_after=_retry_after(response))
    if status in _REFUSED:
        return EnrichmentError(reason, hint="check `enrich.apiKey`")
    if status == _UNKNOWN:
        return EnrichmentError(reason, hint="check `enrich.url` and `enrich.model`")
    kind = _UnsuitableError if status == _UNSUITABLE else EnrichmentError
    return kind.of_answer(reason, hint="check `enrich.url` and `enrich.model`")


def _retry_after(response: httpx2.Response) -> float | None:
    """Seconds; None if the endpoint asks for none."""
    text: str = response.headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _completion(content: bytes) -> Completion:
    try:
        answer = json.loads(content)
        text = answer["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError) as exc:
        raise EnrichmentError.of_answer(
            "the endpoint's answer is no chat completion",
            hint="`enrich.url` is the address before `/chat/completions`",
        ) from exc
    if not isinstance(text, str):
        raise EnrichmentError.of_answer("the endpoint's answer has no text")
    return Completion(text, _tokens(answer))


def _tokens(answer: JSONObject) -> int:
    usage: JSONValue = answer.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) else 0
