"""The page of routes names the routes that there are: specs/api-routes.md."""

from __future__ import annotations

import re

import pytest

from scripts.api_routes import BEGIN, PAGE, ROUTES, updated

pytestmark = pytest.mark.requirement("API-26")

NAMED = re.compile(r"`((?:GET|POST|PUT|PATCH|DELETE) /[^`?]*)`")
BESIDE = {"GET /health"}  # of the gateway, not below `/api`


def test_the_page_has_every_route_with_its_scope() -> None:
    page = PAGE.read_text("utf-8")

    assert page == updated(page), "`make format` writes the table of routes"


def test_every_route_that_a_table_names_exists() -> None:
    tables, _, _ = PAGE.read_text("utf-8").partition(BEGIN)
    known = {f"{route.method} {route.path}".replace(":path}", "}") for route in ROUTES}
    named = set(NAMED.findall(tables))

    assert len(named) > 40
    assert named - known - BESIDE == set()
