from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.catalog import OfferingEntry
from discovery_engine.errors import (
    InputTooLongError,
    PromptNotFoundError,
    ResourceDisabledError,
    ResourceNotFoundError,
    ServerNotFoundError,
)
from discovery_engine.rules.rule import Rule
from discovery_engine.search.searcher import build_searcher
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.view.view import View
from tests.factories import (
    make_catalog,
    make_offering_entry,
    make_part,
    make_settings,
)
from tests.rows import rows

RESOURCE, TEMPLATE, PROMPT, _ = OfferingKind
UNUSED = Rule(patterns=("unused",), enabled=False)


def view(*entries: OfferingEntry, rules: Sequence[Rule] = ()) -> View:
    servers = ("a", "b", "c")
    parts = [
        make_part(s, offerings=tuple(e for e in entries if e.offering.server == s)) for s in servers
    ]
    judged = {"resource_rules": tuple(rules) or (UNUSED,), "prompt_rules": (Rule(enabled=False),)}
    settings = make_settings(*servers, **judged)
    catalog = make_catalog(*parts)
    return View(settings, catalog, lambda: build_searcher(catalog, settings.search))


def resource(uri: str, server: str = "a", *, enabled: bool = True) -> OfferingEntry:
    return make_offering_entry(uri, server, enabled=enabled, name="r")


def template(uri: str, server: str = "a", *, enabled: bool = True) -> OfferingEntry:
    return make_offering_entry(uri, server, kind=TEMPLATE, enabled=enabled, name="t")


def prompt(name: str, server: str = "a", *, enabled: bool = True) -> OfferingEntry:
    return make_offering_entry(name, server, kind=PROMPT, enabled=enabled)


NAMES = st.sampled_from(["x", "a:x", "b:x", "b:a:x", "mcp-discovery-usage-guide", "a:", ":x"])
URIS = st.sampled_from(["x:/1", "x:/%31", "discovery://servers/b/resources/x%3A%2F1", "X:/1"])


@pytest.mark.requirement("RES-20")
@given(
    st.lists(st.tuples(st.sampled_from("abc"), NAMES), unique=True),
    st.lists(st.tuples(st.sampled_from("abc"), URIS), unique=True),
)
def test_every_address_leads_back_to_what_it_is_of(
    prompts: list[tuple[str, str]], resources: list[tuple[str, str]]
) -> None:
    entries = [prompt(name, server) for server, name in prompts]
    others = [resource(uri, server) for server, uri in resources]
    found = view(*entries, *others).offerings

    for entry in entries:
        assert found.prompt(None, found.address(entry.offering)) == entry
        assert found.prompt(entry.offering.server, entry.offering.identifier) == entry
    for entry in others:
        assert found.resource(None, found.address(entry.offering)).entry == entry
    addresses = [found.address(entry.offering) for entry in others]
    assert len(addresses) == len(set(addresses))


@pytest.mark.requirement("RES-20")
def test_an_unknown_address_is_an_error_with_the_nearest() -> None:
    seen = view(
        resource("file:///readme"),
        resource("file:///readmes", enabled=False),
        prompt("review"),
        prompt("reviews", enabled=False),
    )

    with pytest.raises(ResourceNotFoundError) as caught:
        seen.resource(None, "file:///redme")
    assert caught.value.nearest == ("file:///readme",)
    with pytest.raises(PromptNotFoundError) as unknown:
        seen.prompt("a", "reveiw")
    assert unknown.value.nearest == ("review",)
    with pytest.raises(ServerNotFoundError):
        seen.resource(None, "discovery://servers/nobody/resources/x%3A1")
    with pytest.raises(InputTooLongError):
        seen.resource(None, "x:" + "y" * 5000)
    with pytest.raises(InputTooLongError):
        seen.prompt(None, "y" * 5000)


@pytest.mark.requirement("RES-22")
def test_a_uri_that_is_not_listed_goes_to_the_one_server_whose_template_it_is_of() -> None:
    mine, other = template("file:///{path}"), template("db://{table}", "b")
    seen = view(mine, other, resource("file:///listed", "c"))

    assert seen.resource(None, "file:///a").entry.offering == mine.offering
    assert seen.resource(None, "db://t").server == "b"
    assert seen.resource(None, "file:///listed").server == "c"
    assert seen.resource("a", "file:///listed").server == "a"
    address = seen.offerings.address(template("discovery://{x}").offering)
    assert address == "discovery://servers/a/resources/discovery://{x}"
    expanded = view(template("discovery://{x}")).resource(None, address.replace("{x}", "a%2Fb"))
    assert expanded.uri == "discovery://a%2Fb"


HIDDEN = [
    "file:///secret",
    "file:///./secret",
    "file:///a/../secret",
    "file:///a/%2e%2e/secret",
    "file:///%73ecret",
    "file:///%2573ecret",
    "file:///SECRET",
    "file:///secret?x=1",
    "file:///secret#x",
    "file:///x\\..\\secret",
]


@pytest.mark.requirement("RES-23")
@rows("uri", HIDDEN)
@rows("by", ["listed", "rule", "whitelist"])
def test_a_template_leads_to_nothing_that_is_hidden(uri: str, by: str) -> None:
    rules = {
        "listed": [],
        "rule": [Rule(patterns=("/secret/i",), enabled=False)],
        "whitelist": [Rule(patterns=("file:///docs/*",), enabled=True)],
    }
    listed = [resource("file:///secret", enabled=False)] if by == "listed" else []
    seen = view(template("file:///{+path}"), *listed, rules=rules[by])

    with pytest.raises(ResourceDisabledError):
        seen.resource(None, uri)
    with pytest.raises(ResourceDisabledError):
        seen.resource(None, f"discovery://servers/a/resources/{quote(uri, safe='')}")
    assert seen.resource(None, "file:///docs/other").server == "a"


@pytest.mark.requirement("RES-23")
def test_a_whitelisted_folder_is_not_left() -> None:
    rules = [Rule(patterns=("file:///docs/*",), enabled=True)]
    seen = view(template("file:///docs/{+path}"), rules=rules)

    assert seen.resource(None, "file:///docs/a?b=c")
    for uri in ("file:///docs/../secret", "file:///docs/%2e%2e%2fsecret"):
        with pytest.raises(ResourceDisabledError):
            seen.resource(None, uri)
