"""Whose a request is that another gateway passes on, by what this gateway knows itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from discovery_server.access_tokens import AccessTokens
from discovery_server.http.stateless_requests import RelayedClient, RelayedClients
from discovery_server.http.users import User, Users
from discovery_server.tokens import parse_tokens

pytestmark = pytest.mark.requirement("SRV-84")

OWN = "the-token-of-all-gateways-0123456789"
OTHER = "the-token-of-this-gateway-0123456789"


class Shown(NamedTuple):
    """A gateway, as far as it matters here."""

    view: str | None


class Place:
    """A gateway, with the views that it has."""

    def __init__(self, folder: Path, own: str | None = OWN, *views: str) -> None:
        self.access = AccessTokens(folder / "tokens.json")
        self.users = Users(parse_tokens(own), self.access) if own else None
        self.seen: list[User | None] = []
        self.views = {None, *views}
        self.clients = RelayedClients(self.users, self.gateway_of)  # type: ignore[arg-type]

    def gateway_of(self, user: User | None, view: str | None) -> Shown | None:
        self.seen.append(user)
        return Shown(view) if view in self.views else None

    def named(self, user: str | None, view: str | None = None) -> Any:
        return self.clients.name(RelayedClient(Shown(view), user))  # type: ignore[arg-type]


def test_a_client_is_known_by_a_token_that_both_gateways_have(tmp_path: Path) -> None:
    here, there = Place(tmp_path), Place(tmp_path)
    token = here.access.create(view="cats", principals=("team:zoo",))[1]
    name = f"{token.id} (access token)"

    found = [there.clients.find(here.named(one)) for one in ("token 1", name)]

    assert [one.user for one in found if one] == ["token 1", name]
    own, access = there.seen
    assert own is not None
    assert own.principals is None
    assert access is not None
    assert (access.view, access.principals) == ("cats", frozenset({"team:zoo"}))


def test_tokens_of_one_number_and_other_values_are_not_one_client(tmp_path: Path) -> None:
    here, there = Place(tmp_path), Place(tmp_path, OTHER)

    assert there.clients.find(here.named("token 1")) is None
    assert there.clients.find({**here.named("token 1"), "mark": ""}) is None
    assert there.clients.find(here.named("token 2")) is None


def test_a_token_that_was_revoked_or_that_is_of_another_machine_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    here, there = Place(tmp_path), Place(tmp_path / "other")
    token = here.access.create(name="one")[1]
    named = here.named(f"{token.id} (access token)")

    elsewhere = there.clients.find(named)
    before = here.clients.find(named)
    here.access.revoke("one")

    assert elsewhere is None
    assert before is not None
    assert here.clients.find(named) is None


def test_a_token_that_is_not_for_clients_of_mcp_is_nobodys(tmp_path: Path) -> None:
    place = Place(tmp_path)
    token = place.access.create(scopes=frozenset({"read"}))[1]

    assert place.clients.find(place.named(f"{token.id} (access token)")) is None


def test_a_client_without_a_token_is_known_where_none_is_required_alone(tmp_path: Path) -> None:
    open_, closed = Place(tmp_path, None), Place(tmp_path)

    found = open_.clients.find(open_.named(None))

    assert found is not None
    assert found.user is None
    assert closed.clients.find(open_.named(None)) is None
    assert open_.clients.find(closed.named("token 1")) is None


def test_a_view_that_this_gateway_does_not_have_has_no_clients(tmp_path: Path) -> None:
    here, there = Place(tmp_path, OWN, "cats"), Place(tmp_path)
    named = here.named("token 1", "cats")

    assert here.clients.find(named) is not None
    assert there.clients.find(named) is None
