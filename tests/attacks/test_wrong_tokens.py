"""Tokens that are found by trying: how many tries an address has, and who is not locked out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from discovery_server.access_tokens import AccessTokens
from discovery_server.tokens import Tokens, find_tokens, parse_tokens
from tests.unit.server.fakes import make_engine
from tests.unit.server.web import service_of

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("API-32")]

CHOSEN = "correct-horse-battery"
HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"
AT_ONCE = 10
CHOSEN_ALONE = parse_tokens(CHOSEN)


class Gateway:
    """Requests that come from any address."""

    def __init__(self, data: Path, tokens: Tokens = CHOSEN_ALONE) -> None:
        self.made, _ = AccessTokens(data / "tokens.json").create()
        self.service = service_of(make_engine(), tokens, data=data)

    @contextmanager
    def client(self, address: str) -> Iterator[httpx2.AsyncClient]:
        own = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
        transport = httpx2.ASGITransport(self.service.app, client=(address, 1))
        yield httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=own)

    async def ask(self, token: str, address: str = HERE) -> httpx2.Response:
        with self.client(address) as http:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            return await http.get("/api/openapi.json", headers=headers)

    async def status(self, token: str, address: str = HERE) -> int:
        return (await self.ask(token, address)).status_code

    async def guess(self, count: int, address: str = HERE) -> Counter[int]:
        return Counter([await self.status(f"guess-{n:016}", address) for n in range(count)])


async def test_an_address_has_ten_tries_and_locks_out_nobody_elsewhere(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    for _ in range(30):
        assert await gateway.status("") == 401  # no token is no try

    guesses = await gateway.guess(50)
    refused = await gateway.ask(CHOSEN)

    assert guesses == {401: AT_ONCE, 429: 50 - AT_ONCE}
    assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")
    assert 0 < int(refused.headers["retry-after"]) <= 6
    assert CHOSEN not in refused.text
    assert await gateway.status(CHOSEN, ELSEWHERE) == 200
    assert await gateway.status(gateway.made) == 200  # cannot be found by trying


async def test_a_network_of_ipv6_is_one_address(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    for number in range(AT_ONCE):
        await gateway.guess(1, f"2001:db8::{number}")

    assert await gateway.status(CHOSEN, "2001:db8::ffff") == 429
    assert await gateway.status(CHOSEN, "2001:db8:0:1::1") == 200


async def test_a_token_is_locked_out_by_no_other_program_of_its_machine(tmp_path: Path) -> None:
    outcomes = {}
    for address in ("127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"):
        gateway = Gateway(tmp_path / address)
        wrong = await gateway.guess(20, address)
        outcomes[address] = wrong, await gateway.status(CHOSEN, address)
    own = find_tokens({}, data_dir=tmp_path)
    generated = Gateway(tmp_path, own)
    await generated.guess(20)

    right = Counter({401: AT_ONCE, 429: 10}), 200
    assert {address: seen for address, seen in outcomes.items() if seen != right} == {}
    assert await generated.status(own.values[0]) == 200


async def test_many_addresses_together_have_a_limit_and_lock_out_no_address_that_was_never_wrong(
    tmp_path: Path,
) -> None:
    gateway = Gateway(tmp_path)
    addresses = [f"198.51.100.{number}" for number in range(50)]

    statuses = sum([await gateway.guess(5, one) for one in addresses], Counter[int]())

    assert statuses[401] <= 100 + len(addresses) + 20  # each one's first, and what time forgets
    assert await gateway.status(CHOSEN, addresses[-1]) == 429
    assert await gateway.status(CHOSEN, ELSEWHERE) == 200


async def test_wrong_codes_of_browsers_count_and_right_ones_open_all_the_same(
    tmp_path: Path,
) -> None:
    gateway = Gateway(tmp_path)
    outcomes = {}
    for address in ("127.0.0.1", HERE):
        with gateway.client(address) as http:
            codes = [await http.post("/session", json={"code": "x"}) for _ in range(12)]
            form = await http.post("/session", data={"token": CHOSEN})
            opened = await http.post("/session", json={"code": gateway.service.new_code()})
        assert Counter(one.status_code for one in codes) == {401: AT_ONCE, 429: 2}
        outcomes[address] = [form.status_code, opened.status_code]

    assert outcomes == {"127.0.0.1": [303, 204], HERE: [429, 204]}
