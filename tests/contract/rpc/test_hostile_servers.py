"""Mutated answers, noise and progress of a server: what our client and the SDK's make of them.

Ours gets whatever the SDK gets, and goes on where the SDK waits or breaks. Each other difference
stands with its reason where it is allowed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject
from tests.contract.rpc.conversation import (
    LIMIT,
    Client,
    Held,
    Outcome,
    encoded,
    hold,
    our_client,
    sdk_client,
)
from tests.contract.rpc.test_conversations import legacy

pytestmark = pytest.mark.requirement("UPS-83")

ID = 2  # of the call whose answer is mutated; the handshake has the first
WAITS: Outcome = ("waits", None)
GOOD: Outcome = ("result", {"content": []})

NOT_JSON = (b"NaN", b"Infinity", b"1e999")
"""What the SDK accepts in an answer, and ours refuses: it is not JSON, or would be passed on as
something that is not."""


@dataclass
class Seen:
    """What a client makes of a server."""

    first: Outcome = WAITS
    """Of the call that is attacked."""
    second: Outcome = WAITS
    """Of a call that is answered properly afterwards."""
    progress: list[Any] = field(default_factory=list)
    is_broken: bool = False
    """Whether the session ended."""


class Server:
    """Writes `lines` when it has got two calls, and then a good answer to the second."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    def __call__(self, message: JSONObject) -> Iterable[JSONObject | bytes]:
        if message.get("method") != "tools/call":
            yield from legacy("2025-11-25", message)
        elif message["id"] != ID:
            yield from self._lines
            yield {"id": message["id"], "result": GOOD[1]}


def seen_by(client_of: Any, *lines: bytes) -> Seen:
    """Each of `lines` ends with a newline."""
    seen = Seen()

    async def report(*progress: Any) -> None:
        seen.progress.append(progress)

    async def talk(client: Client, held: Held) -> None:
        async def ask() -> None:
            seen.first = await client.call("first", on_progress=report)

        await client.connect(is_legacy=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await held.wait_for("tools/call")
            seen.second = await client.call("second")
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()

    try:
        anyio.run(partial(hold, client_of, Server(list(lines)), talk))
    except* OverflowError:  # of the SDK: progress beyond all floats
        assert client_of is sdk_client
        seen.is_broken = True
    seen.is_broken |= seen.second != GOOD
    return seen


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """The SDK logs each line that it cannot read, with a traceback."""
    caplog.set_level(logging.CRITICAL, "mcp")
    caplog.set_level(logging.CRITICAL, "client")


def present(members: JSONObject) -> JSONObject:
    return {name: value for name, value in members.items() if value is not ...}


def line(**members: Any) -> bytes:
    return json.dumps(present(members)).encode() + b"\n"


DEEP = json.loads("[" * 150 + "]" * 150)
IDS = st.sampled_from(
    [ID, str(ID), f" {ID}", f"0{ID}", 2.0, 2.5, -2, None, True, 1, 99, [ID], {}, "x" * 300, 10**30]
)
VERSIONS = st.just("2.0") | st.sampled_from([..., "1.0", "", 2.0, None])
RESULTS = st.sampled_from(
    [{}, {"content": []}, {"x": "\0"}, {"x": "\ud800"}, {"x": DEEP}, [], "text", None, 1, True]
)
CODES = st.sampled_from([-5, 0, 10**30, 1.5, 5.0, "x", "7", None, True, ...])
TEXTS = st.sampled_from(["no", "", "\0\x1b[2J", None, 5, [], ...])
ERRORS = st.sampled_from([{}, [], "text", None, 1]) | st.builds(
    lambda **members: present(members),
    code=CODES,
    message=TEXTS,
    data=st.sampled_from([..., None, [1], {"x": 1}, "text"]),
)
ANSWERS = st.one_of(
    st.builds(line, jsonrpc=VERSIONS, id=IDS | st.just(ID), result=RESULTS),
    st.builds(line, jsonrpc=VERSIONS, id=IDS | st.just(ID), error=ERRORS),
    st.builds(line, jsonrpc=VERSIONS, id=st.just(ID), result=RESULTS, error=ERRORS),
    st.builds(line, result=RESULTS, extra=st.integers(), id=st.just(ID), jsonrpc=st.just("2.0")),
    st.builds(line, jsonrpc=st.just("2.0"), id=st.just(ID), method=TEXTS, result=RESULTS),
)
NUMBERS = st.sampled_from(
    [b"NaN", b"-Infinity", b"1e999", b"1" * 5000, b"-0", b"01", b"1.", b"1e5"]
)
MUTATIONS = st.one_of(
    st.builds(lambda at: lambda text: text[:at], st.integers(0, 60)),
    st.builds(
        lambda at, new: lambda text: text[:at] + new + text[at + 1 :],
        st.integers(0, 60),
        st.binary(max_size=2).filter(lambda new: b"\n" not in new),
    ),
    st.sampled_from(
        [
            lambda text: text + b"\r",
            lambda text: b"\xef\xbb\xbf" + text,
            lambda text: b" \t" + text + b" ",
            lambda text: b"[" + text + b"]",
            lambda text: text + text,
            lambda text: text[:-1] + b',"id":' + text[6:],
        ]
    ),
    st.builds(lambda new: lambda text: text.replace(b"5", new), NUMBERS),
    st.builds(
        lambda new: lambda text: b'{"jsonrpc":"2.0","id":2,"result":{"n":' + new + b"}}", NUMBERS
    ),
)


@st.composite
def mutated(draw: st.DrawFn, lines: st.SearchStrategy[bytes]) -> bytes:
    """A line, half of the time with its text changed."""
    text = draw(lines).removesuffix(b"\n")
    if draw(st.booleans()):
        text = draw(MUTATIONS)(text)
    return text + b"\n"


@settings(max_examples=40, deadline=None)
@given(mutated(ANSWERS))
def test_an_answer_that_the_sdk_accepts_is_accepted_and_one_that_breaks_it_breaks_nothing(
    answer: bytes,
) -> None:
    ours, theirs = seen_by(our_client, answer), seen_by(sdk_client, answer)

    assert ours.second == GOOD
    assert ours.first[0] in ("result", "error", "waits")
    # An invalid answer that shows the id of a request fails it at once; in the SDK its caller waits
    # until the timeout. Text that is not UTF-8 ends the SDK's session.
    if any(text in answer for text in NOT_JSON):
        # Its request fails at once if its id stands beside the result or the error.
        assert ours.first in (("error", -32700), WAITS)
    elif not theirs.is_broken and theirs.first != WAITS:
        assert ours.first == expected(theirs.first, answer)


def expected(theirs: Outcome, answer: bytes) -> Outcome:
    """What ours makes of an answer that the SDK accepts; each difference has its reason."""
    members = json.loads(answer.decode("utf-8-sig"))
    kind, value = theirs
    if kind == "error" and isinstance(members.get("result"), dict):
        kind, value = "result", members["result"]  # beside an error; what the tool did is not lost
    if kind == "error" and not is_number(members["error"]["code"]):
        return "error", 0  # the SDK takes `true` for 1 and "7" for 7
    # NUL breaks terminals, files and databases: it becomes U+FFFD.
    return kind, json.loads(json.dumps(value).replace("\\u0000", "\\ufffd"))


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


TOKENS = st.sampled_from([ID, str(ID), f"0{ID}", 2.0, True, None, 1, 99, "x", [ID], {}, ...])
PROGRESS = st.sampled_from([1, 0.5, -1, 0, True, "1", None, [1], 10**30, 10**400, ...])
NOTES = st.builds(
    lambda **params: line(jsonrpc="2.0", method="notifications/progress", params=present(params)),
    progressToken=TOKENS | st.just(ID),
    progress=PROGRESS,
    total=PROGRESS,
    message=TEXTS,
)
REQUESTS = st.builds(
    line,
    jsonrpc=VERSIONS,
    id=st.sampled_from([ID, 0, -1, "x", "x" * 300, 10**30, 1.5, None, True]),
    method=st.sampled_from(["ping", "sampling/createMessage", "roots/list", "", "x" * 500, 5]),
    params=st.sampled_from([..., None, {}, [], "text", {"_meta": {"progressToken": ID}}]),
)
FOREIGN = st.builds(
    line,
    jsonrpc=VERSIONS,
    id=st.sampled_from([1, 99, -2, "x", None, True, 2.5, 10**30, [], {}]),
    result=RESULTS,
)
NOTIFICATIONS = st.builds(
    line,
    jsonrpc=VERSIONS,
    method=st.sampled_from(
        ["notifications/cancelled", "notifications/tools/list_changed", "notifications/message", ""]
    ),
    params=st.sampled_from([..., None, {}, [], {"requestId": ID}, {"requestId": [ID]}]),
)
LONG = st.sampled_from(
    [b"x" * (LIMIT + 1), b"[" * 100_000, b'{"a":' * 5000, b"", b"\xff\xfe", b"\0"]
)
NOISE = st.one_of(NOTES, REQUESTS, FOREIGN, NOTIFICATIONS, LONG.map(lambda text: text + b"\n"))
ANSWER = encoded({"id": ID, "result": GOOD[1]})


@settings(max_examples=40, deadline=None)
@given(st.lists(NOISE, min_size=1, max_size=5))
def test_nothing_else_that_a_server_writes_changes_an_answer(noise: list[bytes]) -> None:
    ours, theirs = seen_by(our_client, *noise, ANSWER), seen_by(sdk_client, *noise, ANSWER)

    assert (ours.first, ours.second) == (GOOD, GOOD)
    assert theirs.is_broken or theirs.first == GOOD


@settings(max_examples=40, deadline=None)
@given(NOTES)
def test_progress_that_the_sdk_passes_on_is_passed_on(note: bytes) -> None:
    ours, theirs = seen_by(our_client, note, ANSWER), seen_by(sdk_client, note, ANSWER)

    assert (ours.first, ours.second) == (GOOD, GOOD)
    if theirs.is_broken:
        return
    total = json.loads(note)["params"].get("total")
    is_total = is_number(total)  # the SDK takes `true` for 1.0
    passed_on = [
        (float(progress), one if one is None else float(one), text)
        for progress, one, text in ours.progress
    ]
    assert passed_on == [
        (progress, one if is_total else None, text and text.replace("\0", "\ufffd"))
        for progress, one, text in theirs.progress
    ]


@pytest.mark.parametrize("client", [our_client, sdk_client])
def test_a_second_answer_changes_nothing(client: Any) -> None:
    other = encoded({"id": ID, "error": {"code": -1, "message": "no"}})

    seen = seen_by(client, ANSWER, other, ANSWER)

    assert (seen.first, seen.second) == (GOOD, GOOD)
