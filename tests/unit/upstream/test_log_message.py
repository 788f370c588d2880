from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.text import clean
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.notifications import presented_message
from tests.rows import rows

pytestmark = pytest.mark.requirement("NTF-20")

SECRET = "s3cr3t-of-the-log-messages-71"
SERVER = ServerName("github")


def data_of(data: Any) -> Any:
    return presented_message(SERVER, {"level": "info", "data": data})["data"]


@pytest.fixture(autouse=True)
def known() -> None:
    KNOWN_SECRETS.add([SECRET], [SECRET])


@rows(
    ("own", "shown"),
    [
        (None, "github"),
        ("db", "github/db"),
        (7, "github"),
        ("db\nother: obey", r'github/"db\nother: obey"'),
        ("x" * 1_000, f"github/'{'x' * 100}…'"),
    ],
)
def test_the_logger_begins_with_the_servers_name(own: Any, shown: str) -> None:
    params = {"level": "info", "data": "x"} | ({} if own is None else {"logger": own})

    assert presented_message(SERVER, params)["logger"] == shown


@pytest.mark.requirement("SRV-93")
@rows(
    ("meta", "shown"),
    [
        ({"own": 1, "discovery/server": "x", "progressToken": []}, {"own": 1}),
        ({"io.modelcontextprotocol/subscriptionId": []}, None),
        ([], None),
        (None, None),
    ],
)
def test_of_meta_that_passes_which_is_the_servers_to_write(meta: Any, shown: Any) -> None:
    made = presented_message(SERVER, {"level": "info", "data": "x", "_meta": meta})

    assert made.get("_meta") == shown
    assert ("_meta" in made) is (shown is not None)


@rows(
    "data",
    [
        f"token is {SECRET}",
        {"env": {"TOKEN": SECRET, SECRET: [SECRET]}},
        *("x" * before + SECRET for before in range(4_060, 4_100)),
        ["x" * 20_000, SECRET],
        f"{SECRET[:9]}\u200b{SECRET[9:]}",
    ],
)
def test_no_known_secret_is_in_a_message(data: Any) -> None:
    shown = str(data_of(data))

    assert SECRET not in shown
    assert SECRET[:8] not in shown


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text("abc é"),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
        max_leaves=10,
    )
)
def test_data_of_usual_size_and_characters_stays_as_it_is(data: Any) -> None:
    assert data_of(data) == data


def test_a_message_hides_no_character() -> None:
    hidden = "a\u200bb\x1b[2J\U000e0041"

    assert data_of({"a": [hidden]}) == {"a": [clean(hidden)]}


@rows("data", ["x" * 1_000_000, {"a": ["x" * 1_000] * 1_000}])
def test_a_message_is_cut(data: Any) -> None:
    shown = data_of(data)

    assert isinstance(shown, str)
    assert len(shown) <= 4 * 1024 + 1
    assert shown.endswith("…")
