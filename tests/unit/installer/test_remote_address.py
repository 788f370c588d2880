from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.errors import InstallRefusedError, InvalidInputError
from discovery_engine.marketplace.entry import Input, RemoteOffer
from discovery_engine.marketplace.installer.offered_inputs import InputValues, address, headers
from tests.rows import rows


def variable(name: str, **members: Any) -> Input:
    return Input(name, "variable", is_required=True, **members)


def filled(url: str, **given: str) -> str | None:
    names = [name for name in ("tenant", "path", "key", "base") if f"{{{name}}}" in url]
    offer = RemoteOffer("streamable-http", url, variables=tuple(map(variable, names)))
    return address(offer, InputValues("files", given))


@pytest.mark.requirement("INS-5")
@rows(
    ("url", "given", "expected"),
    [
        ("https://a.example/mcp", {}, "https://a.example/mcp"),
        ("https://{tenant}.a.example/mcp", {"tenant": "ada"}, "https://ada.a.example/mcp"),
        (
            "https://a.example/{path}/mcp",
            {"path": "x/../y?z"},
            "https://a.example/x%2F..%2Fy%3Fz/mcp",
        ),
        (
            "https://a.example/?k={tenant}",
            {"tenant": "a&b=c#d"},
            "https://a.example/?k=a%26b%3Dc%23d",
        ),
        ("{base}/mcp", {"base": "https://own.example"}, "https://own.example/mcp"),
        ("http://localhost:3000/mcp", {}, "http://localhost:3000/mcp"),
        ("http://127.0.0.1:3000/mcp", {}, "http://127.0.0.1:3000/mcp"),
    ],
)
def test_values_fill_their_places_in_an_address(
    url: str, given: dict[str, str], expected: str
) -> None:
    assert filled(url, **given) == expected


@pytest.mark.requirement("INS-5")
@rows(
    "url",
    [
        *("http://a.example/mcp", "ftp://a.example", "javascript:alert(1)", "file:///etc/passwd"),
        *("https://10.0.0.1/mcp", "https://169.254.169.254/latest", "https://[fd00::1]/mcp"),
        *("https://router.local/mcp", "https://intranet/mcp", "https://user:pw@a.example/mcp"),
        *(
            "https://0x7f000001.example\\@evil.example/",
            "https://a.example/ x",
            "https://100.64.0.1/",
        ),
    ],
)
def test_an_address_that_may_not_be_reached_is_refused(url: str) -> None:
    with pytest.raises(InstallRefusedError):
        filled(url)


@pytest.mark.requirement("INS-5")
@rows("value", ["evil.example/", "a@evil.example", "a#", "a?b", "", "a:b:c", "-a", "a\\b"])
def test_a_value_cannot_become_another_host(value: str) -> None:
    with pytest.raises(InvalidInputError):
        filled("https://{tenant}.a.example/mcp", tenant=value)


@pytest.mark.requirement("INS-5")
@given(st.text(min_size=1).filter(lambda text: "$" not in text and text.isprintable()))
def test_no_value_changes_the_host_or_what_is_around_its_place(value: str) -> None:
    try:
        url = filled("https://a.example/v1/{path}/mcp?x=1", path=value)
    except InvalidInputError:
        return

    parts = urlsplit(url or "")
    assert (parts.scheme, parts.netloc, parts.query) == ("https", "a.example", "x=1")
    assert parts.path.startswith("/v1/")
    assert parts.path.endswith("/mcp")
    assert parts.path.count("/") == 3


@pytest.mark.requirement("INS-10")
def test_an_address_whose_value_is_missing_is_none_yet() -> None:
    assert filled("https://{tenant}.a.example/mcp") is None


@pytest.mark.requirement("INS-5")
@rows(
    "name",
    ["Host", "content-length", "Transfer-Encoding", "Cookie", "MCP-Session-Id", "a b", "a\r\nb"],
)
def test_a_header_of_the_connection_is_refused(name: str) -> None:
    with pytest.raises(InstallRefusedError, match="sets the header"):
        headers([Input(name, "header", value="x")], InputValues("files", {}))


@pytest.mark.requirement("INS-11")
def test_a_secret_in_a_header_is_stored() -> None:
    values = InputValues("files", {"token": "hunter-2"})
    one = Input("Authorization", "header", value="Bearer {token}", variables=(variable("token"),))

    assert headers([one], values) == {"Authorization": "Bearer ${secret:files/token}"}
    assert values.to_store == {"files/token": "hunter-2"}


@pytest.mark.requirement("INS-5", "INS-11")
def test_a_secret_in_an_address_is_stored_as_it_stands_there() -> None:
    values = InputValues("files", {"key": "a&b/../c"})
    offer = RemoteOffer("sse", "https://a.example/mcp?k={key}", variables=(variable("key"),))

    assert address(offer, values) == "https://a.example/mcp?k=${secret:files/key}"
    assert values.to_store == {"files/key": "a%26b%2F..%2Fc"}
