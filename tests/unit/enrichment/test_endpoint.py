"""The HTTP client of an endpoint, against a real one that answers as it is told."""

from __future__ import annotations

import time
from email.utils import formatdate
from itertools import chain, repeat

import anyio
import httpx2
import pytest

from discovery_engine.evaluation.enrichment.endpoint import Completion, Endpoint, open_endpoint
from discovery_engine.evaluation.enrichment.enrichment_error import EnrichmentError
from tests.rows import rows
from tests.servers.chat_endpoint import Answer, Reply, chat_endpoint, saying

pytestmark = pytest.mark.anyio

BUSY = Answer(b"{}", 429, {"Retry-After": "7"})


def in_turn(*answers: Answer) -> Reply:
    """These, and then the last one for ever."""
    following = chain(answers, repeat(answers[-1]))
    return lambda _: next(following)


async def completed(url: str, slept: list[float], *, key: str = "") -> Completion:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with anyio.fail_after(60):
        async with httpx2.AsyncClient(timeout=5) as client:
            endpoint = Endpoint(client, url, model="m", key=key, sleep=sleep)
            return await endpoint.complete("be brief", "say it")


@pytest.mark.requirement("ENR-25")
async def test_what_may_pass_is_tried_again_as_late_as_the_endpoint_asks() -> None:
    later = formatdate(time.time() + 60, usegmt=True)
    at_a_time = Answer(b"{}", 503, {"Retry-After": later})
    slept: list[float] = []
    answers = in_turn(BUSY, at_a_time, Answer(b"{}", 500), saying("hello"))
    with chat_endpoint(answers) as (url, asked):
        found = await completed(url, slept)

    assert found.text == "hello"
    assert len(asked) == 4
    waits = [seconds for seconds in slept if seconds > 0.1]
    assert waits[0] == 7
    assert 30 < waits[1] <= 60
    assert waits[2] == 4  # the third pause of the backoff


@pytest.mark.requirement("ENR-25")
async def test_a_connection_that_is_cut_is_tried_again() -> None:
    cut = Answer(saying("hello").content, is_cut=True)
    with chat_endpoint(in_turn(cut, saying("hello"))) as (url, asked):
        found = await completed(url, [])

    assert (found.text, len(asked)) == ("hello", 2)


@pytest.mark.thorough
@pytest.mark.requirement("ENR-25")
@rows(
    ("answer", "tries", "message", "hint", "is_final"),
    [
        (Answer(b"{}", 503), 5, "status 503", "again later", False),
        (Answer(b"{}", 529), 5, "status 529", "again later", False),
        (Answer(b"{}", 524), 5, "status 524", "again later", False),
        (Answer(b"{}", 429, {"Retry-After": "3600"}), 1, "status 429", "again later", True),
        (Answer(b"secret words", 401), 1, "status 401", "enrich.apiKey", True),
        (Answer(b"{}", 404), 1, "status 404", "enrich.url", True),
        (Answer(b"{}", 302, {"Location": "http://x/"}), 1, "status 302", "enrich.url", False),
        (Answer(b"{}", 400), 1, "status 400", "enrich.model", False),
        (Answer(b"<html>"), 1, "no chat completion", "chat/completions", False),
        (Answer(b"[" * 100_000), 1, "no chat completion", "chat/completions", False),
        (Answer(b'{"choices": []}'), 1, "no chat completion", "chat/completions", False),
        (
            Answer(b'{"choices": [{"message": {"content": null}}]}'),
            1,
            "has no text",
            "",
            False,
        ),
        (saying("x" * 300_000), 1, "too long", "", False),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_an_answer_of_no_use_is_an_error_without_its_words(
    answer: Answer, tries: int, message: str, hint: str, is_final: bool
) -> None:
    with chat_endpoint(in_turn(answer)) as (url, asked), pytest.raises(EnrichmentError) as raised:
        await completed(url, [])

    assert len(asked) == tries
    assert message in raised.value.message
    assert hint in raised.value.hint
    assert "secret words" not in str(raised.value)
    assert raised.value.is_final == is_final


@pytest.mark.requirement("ENR-28")
@rows("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
@rows("host", ["127.0.0.1", "localhost"])
async def test_what_is_for_this_machine_is_sent_to_no_proxy(
    monkeypatch: pytest.MonkeyPatch, variable: str, host: str
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with (
        chat_endpoint(in_turn(saying("of the proxy"))) as (proxy, stolen),
        chat_endpoint(in_turn(saying("hello"))) as (url, _),
        anyio.fail_after(60),
    ):
        monkeypatch.setenv(variable, proxy.removesuffix("/v1"))
        here = url.replace("127.0.0.1", host)
        async with open_endpoint(here, model="m", key="k", timeout=5) as endpoint:
            assert (await endpoint.complete("", "")).text == "hello"

    assert stolen == []
