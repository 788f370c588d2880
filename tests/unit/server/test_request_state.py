from __future__ import annotations

import base64
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.errors import RegistryError
from discovery_server.request_state import InvalidStateError, StateSealer, call_identity
from tests.factories import Clock
from tests.rows import rows

pytestmark = [pytest.mark.requirement("QST-20"), pytest.mark.anyio]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), json_values, max_size=4)
KEY = bytes(range(32))
CALL = call_identity("anna", "tools/call", {"name": "t", "arguments": {"a": 1}})


@given(state=objects, params=objects)
def test_what_was_sealed_is_unsealed_for_the_same_call(state: Any, params: Any) -> None:
    sealer = StateSealer()
    identity = call_identity("anna", "tools/call", params)

    assert sealer.unseal(sealer.seal(state, identity, lifetime=60), identity) == state


@given(secret=st.text(string.ascii_letters, min_size=12))
def test_a_client_reads_nothing_of_a_state(secret: str) -> None:
    sealed = StateSealer().seal({"state": secret}, CALL, lifetime=60)

    raw = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
    assert secret not in sealed
    assert secret.encode() not in raw


@given(data=st.data())
def test_a_state_with_any_character_changed_added_or_removed_is_refused(data: Any) -> None:
    sealer = StateSealer()
    sealed = sealer.seal({"call": "7"}, CALL, lifetime=60)
    at = data.draw(st.integers(0, len(sealed)))
    removed = data.draw(st.integers(0, 3))
    added = data.draw(st.text("Aa0_-= \n+/é", max_size=3))
    forged = sealed[:at] + added + sealed[at + removed :]

    if forged != sealed:
        with pytest.raises(InvalidStateError):
            sealer.unseal(forged, CALL)


@rows(
    ("client", "method", "params"),
    [
        ("berta", "tools/call", {"name": "t", "arguments": {"a": 1}}),
        (None, "tools/call", {"name": "t", "arguments": {"a": 1}}),
        ("anna", "prompts/get", {"name": "t", "arguments": {"a": 1}}),
        ("anna", "tools/call", {"name": "u", "arguments": {"a": 1}}),
        ("anna", "tools/call", {"name": "t", "arguments": {"a": 2}}),
        ("anna", "tools/call", {"name": "t", "arguments": {"a": True}}),
        ("anna", "tools/call", {"name": "t", "arguments": {"a": "1"}}),
        ("anna", "tools/call", {"name": "t", "arguments": {"a": 1, "b": None}}),
        ("anna", "tools/call", {"name": "t"}),
        ("anna", "resources/read", {"uri": "t", "arguments": {"a": 1}}),
    ],
    ids=repr,
)
def test_the_state_of_another_client_tool_or_argument_is_refused(
    client: Any, method: str, params: Any
) -> None:
    sealer = StateSealer()
    sealed = sealer.seal({"call": "7"}, CALL, lifetime=60)

    with pytest.raises(InvalidStateError):
        sealer.unseal(sealed, call_identity(client, method, params))


def test_a_retry_may_differ_in_what_does_not_say_what_is_called() -> None:
    first = {"name": "t", "arguments": {"a": 1, "b": 2}, "_meta": {"progressToken": 1}}
    retry = {
        "arguments": {"b": 2, "a": 1},
        "name": "t",
        "_meta": {"progressToken": 2},
        "requestState": "x",
        "inputResponses": {"q": {}},
    }

    assert call_identity(None, "tools/call", first) == call_identity(None, "tools/call", retry)


def test_a_state_is_refused_from_the_second_on_at_which_it_expires() -> None:
    clock = Clock()
    sealer = StateSealer(clock=clock)
    sealed = sealer.seal({"call": "7"}, CALL, lifetime=60)

    clock.now += 59.9
    assert sealer.unseal(sealed, CALL) == {"call": "7"}
    clock.now += 0.1
    with pytest.raises(InvalidStateError):
        sealer.unseal(sealed, CALL)


@pytest.mark.requirement("SRV-80")
async def test_until_the_shared_key_can_be_derived_the_own_one_seals_and_stays_valid() -> None:
    answers: list[bytes | RegistryError] = [RegistryError("it is away"), KEY]

    def derive() -> bytes:
        if isinstance(answer := answers.pop(0), RegistryError):
            raise answer
        return answer

    sealer = StateSealer(derive)
    await sealer.prepare()
    early = sealer.seal({"state": "early"}, CALL, lifetime=60)
    await sealer.prepare()
    await sealer.prepare()  # nothing is left to derive

    assert sealer.unseal(early, CALL) == {"state": "early"}
    assert sealer.unseal(sealer.seal({}, CALL, lifetime=60), CALL) == {}


@given(text=st.text() | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_no_text_that_was_not_sealed_is_accepted(text: str) -> None:
    with pytest.raises(InvalidStateError):
        StateSealer().unseal(text, CALL)


@pytest.mark.requirement("SRV-80")
async def test_gateways_without_a_secret_say_so_and_seal_for_themselves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sealer = StateSealer(lambda: None)
    await sealer.prepare()

    assert sealer.unseal(sealer.seal({"call": "7"}, CALL, lifetime=60), CALL) == {"call": "7"}
    assert "DISCOVERY_STATE_KEY" in caplog.text


def test_every_refusal_reads_the_same() -> None:
    clock = Clock()
    sealer = StateSealer(clock=clock)
    sealed = sealer.seal({"call": "7"}, CALL, lifetime=60)
    other = call_identity("berta", "tools/call", {})
    texts = set()
    for text, identity in [("", CALL), ("x" * 99, CALL), (sealed[:-1], CALL), (sealed, other)]:
        with pytest.raises(InvalidStateError) as refused:
            sealer.unseal(text, identity)
        texts.add(str(refused.value.to_json()))

    assert len(texts) == 1
