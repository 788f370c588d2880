from __future__ import annotations

import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.protocol import LATEST_MODERN
from discovery_engine.tools.offering import OfferingKind
from discovery_server.eras import ClientRequest
from discovery_server.gateway import Gateway
from tests.factories import make_offering_entry, make_part
from tests.rows import rows
from tests.unit.server.fakes import FakeEngine, make_view

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("SCP-10")
@rows(
    ("method", "params"),
    [("resources/read", {"uri": "x:/page"}), ("prompts/get", {"name": "summary"})],
)
def test_a_request_about_what_is_not_shown_any_more_is_not_continued(
    method: str, params: JSONObject
) -> None:
    offered = (
        make_offering_entry("x:/page"),
        make_offering_entry("summary", kind=OfferingKind.PROMPT),
    )
    engine = FakeEngine(make_view(make_part("docs", offerings=offered)))
    gateway = Gateway(engine, is_of_owner=False)
    begun = ClientRequest(method, params, LATEST_MODERN)

    before = gateway.still_shows(begun, ["docs"])
    engine.view = make_view(make_part("docs"))

    assert before
    assert not gateway.still_shows(begun, ["docs"])
