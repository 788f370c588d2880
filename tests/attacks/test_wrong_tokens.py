"""Tokens that are found by trying: how many tries an address has, and who is not locked out."""

from __future__ import annotations

import hmac
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_server.access_tokens import AccessTokens
from discovery_server.http.users import Refusal, User, Users
from discovery_server.http.wrong_tokens import AT_ONCE, INTERVAL, MOST_ADDRESSES, WrongTokens
from discovery_server.tokens import find_tokens, parse_tokens
from tests.unit.server.fakes import make_engine
from tests.unit.server.web import service_of

pytestmark = pytest.mark.anyio

CHOSEN = "correct-horse-battery"
HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def bearer(token: str) -> list[bytes]:
    return [f"Bearer {token}".encode()]


def users(clock: Clock, tmp_path: Path) -> tuple[Users, str]:
    """With a chosen token, and one that was made."""
    access = AccessTokens(tmp_path / "tokens.json")
    made, _ = access.create()
    return Users(parse_tokens(CHOSEN), access, WrongTokens(clock)), made


def status(users: Users, token: str, address: str = HERE) -> int:
    found = users.of(bearer(token), address)
    return found.status if isinstance(found, Refusal) else 200


def guess(users: Users, count: int, address: str = HERE) -> Counter[int]:
    return Counter(status(users, f"guess-{number:016}", address) for number in range(count))


@pytest.mark.requirement("API-32")
def test_an_address_has_ten_tries_and_then_ten_in_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    tried, _ = users(clock, tmp_path)

    first = guess(tried, 500)
    clock.now += 60
    then = guess(tried, 500)

    assert first == {401: AT_ONCE, 429: 500 - AT_ONCE}
    assert then == {401: 10, 429: 490}


@pytest.mark.requirement("API-32")
def test_what_is_refused_for_too_many_tries_was_compared_with_no_chosen_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, _ = users(Clock(), tmp_path)
    compared = 0
    compare = hmac.compare_digest

    def count(one: Any, other: Any) -> bool:
        nonlocal compared
        compared += isinstance(one, bytes)  # those of chosen tokens; the others are texts
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", count)
    guess(tried, 500)

    assert compared == AT_ONCE


@pytest.mark.requirement("API-33")
def test_a_chosen_token_waits_at_the_address_of_the_wrong_ones_and_nowhere_else(
    tmp_path: Path,
) -> None:
    clock = Clock()
    tried, made = users(clock, tmp_path)
    guess(tried, 500)

    refused = tried.of(bearer(CHOSEN), HERE)

    assert isinstance(refused, Refusal)
    assert (refused.status, refused.retry_after) == (429, 6)
    assert CHOSEN not in refused.description
    assert status(tried, CHOSEN, ELSEWHERE) == 200
    assert status(tried, made) == 200  # what cannot be found by trying is not locked out
    clock.now += refused.retry_after
    assert status(tried, CHOSEN) == 200


@pytest.mark.requirement("API-33")
def test_a_chosen_token_is_locked_out_by_no_other_program_of_its_machine(tmp_path: Path) -> None:
    outcomes = {}
    for address in ("127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "localhost"):
        tried, made = users(Clock(), tmp_path / address)
        wrong = guess(tried, 500, address)
        outcomes[address] = wrong, status(tried, CHOSEN, address), status(tried, made, address)

    right = Counter({401: AT_ONCE, 429: 500 - AT_ONCE}), 200, 200
    assert {address: seen for address, seen in outcomes.items() if seen != right} == {}


@pytest.mark.requirement("API-33")
def test_the_token_of_the_data_folder_is_locked_out_by_nobody(tmp_path: Path) -> None:
    tokens = find_tokens({}, data_dir=tmp_path)
    tried = Users(tokens)

    assert guess(tried, 50) == {401: AT_ONCE, 429: 40}
    assert status(tried, tokens.values[0]) == 200


@pytest.mark.requirement("API-33")
def test_many_addresses_together_have_a_limit_and_lock_out_no_address_that_was_never_wrong(
    tmp_path: Path,
) -> None:
    tried, _ = users(Clock(), tmp_path)
    addresses = [f"198.51.100.{number}" for number in range(50)]

    statuses = sum((guess(tried, 5, one) for one in addresses), Counter())

    looked_at = statuses[401]
    assert looked_at <= 100 + len(addresses)  # each one's first, once all have had a hundred
    assert statuses[429] == 250 - looked_at
    assert status(tried, CHOSEN, addresses[-1]) == 429
    assert status(tried, CHOSEN, ELSEWHERE) == 200


@pytest.mark.requirement("API-33")
def test_requests_without_a_token_and_right_ones_are_held_against_nobody(tmp_path: Path) -> None:
    tried, _ = users(Clock(), tmp_path)
    for _ in range(500):
        assert isinstance(tried.of([], HERE), Refusal)
        assert isinstance(tried.of(bearer(CHOSEN), HERE), User)


@pytest.mark.requirement("API-32")
@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 20)), max_size=80))
def test_no_sequence_of_tries_gets_more_than_its_share(tries: list[tuple[int, float]]) -> None:
    clock = Clock()
    wrong = WrongTokens(clock)
    looked_at: Counter[str] = Counter()
    for number, pause in tries:
        clock.now += pause
        if not wrong.wait(address := f"a{number}"):
            wrong.record(address)
            looked_at[address] += 1

    share = AT_ONCE + (clock.now - Clock.now) / INTERVAL
    assert all(count <= share + 1e-6 for count in looked_at.values())
    assert len(wrong) <= 4


@pytest.mark.requirement("API-32")
def test_the_addresses_that_are_remembered_have_a_limit() -> None:
    wrong = WrongTokens(Clock())
    for number in range(5 * MOST_ADDRESSES):
        wrong.record(f"address {number}")

    assert len(wrong) == MOST_ADDRESSES


@pytest.mark.requirement("API-32", "API-33")
async def test_wrong_codes_of_browsers_count_and_right_codes_and_tokens_open_all_the_same() -> None:
    service = service_of(make_engine(), parse_tokens(CHOSEN))
    own = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    outcomes = {}
    for host in ("127.0.0.1", HERE):
        transport = httpx2.ASGITransport(service.app, client=(host, 1))
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://localhost", headers=own
        ) as http:
            codes = [(await http.post("/session", json={"code": "x"})) for _ in range(12)]
            form = await http.post("/session", data={"token": CHOSEN})
            header = await http.post("/session", headers={"authorization": f"Bearer {CHOSEN}"})
            opened = await http.post("/session", json={"code": service.new_code()})
        assert [one.status_code for one in codes] == [401] * AT_ONCE + [429] * 2
        assert codes[-1].headers["retry-after"] == "6"
        assert codes[-1].json()["code"] == "too_many_requests"
        outcomes[host] = [form.status_code, header.status_code, opened.status_code]

    assert outcomes == {"127.0.0.1": [303, 204, 204], HERE: [429, 429, 204]}


@pytest.mark.requirement("API-32")
def test_one_network_of_ipv6_is_one_address(tmp_path: Path) -> None:
    tried, _ = users(Clock(), tmp_path)
    for number in range(AT_ONCE):
        guess(tried, 1, f"2001:db8::{number}")

    assert status(tried, CHOSEN, "2001:db8::ffff") == 429
    assert status(tried, CHOSEN, "2001:db8:0:1::1") == 200
