"""The lock file: its bytes, its faults, and what deviates from it."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.settings import StdioTransport
from discovery_engine.tools.model import ServerName, Tool
from discovery_engine.trust.lockfile import (
    Lock,
    from_text,
    lock_of_parts,
    to_text,
)
from tests.factories import make_catalog, make_part, make_server
from tests.rows import rows
from tests.unit.trust.mutations import MUTATIONS, TOOL

MAIL = ServerName("mail")


def tool(definition: dict[str, object]) -> Tool:
    return Tool.from_mcp(MAIL, definition)


def lock_of(*definitions: dict[str, object], instructions: str = "", command: str = "m") -> Lock:
    part = make_part("mail", *map(tool, definitions), instructions=instructions)
    server = make_server("mail", transport=StdioTransport(command, ("--token", "hunter2")))
    return lock_of_parts([server], make_catalog(part))


@pytest.mark.requirement("TRU-30")
@given(seed=st.integers())
def test_equal_catalogs_give_equal_bytes(seed: int) -> None:
    chance = random.Random(seed)
    tools = [TOOL, {"name": "b", "inputSchema": {}}]
    keys = list(TOOL)
    chance.shuffle(keys)
    again = [{key: TOOL[key] for key in keys}, tools[1]]
    chance.shuffle(again)

    assert to_text(lock_of(*again)) == to_text(lock_of(*tools))


@pytest.mark.requirement("TRU-30")
def test_what_was_written_is_what_is_read() -> None:
    lock = lock_of(TOOL, instructions="Be kind.")

    assert from_text(to_text(lock)) == lock


def edited(**fields: object) -> str:
    form = json.loads(to_text(lock_of(TOOL)))
    form["servers"]["mail"]["tools"]["send_mail"] |= fields
    return json.dumps(form)


@pytest.mark.requirement("TRU-31")
@rows(
    ("text", "message"),
    [
        pytest.param("", "line 1", id="empty"),
        pytest.param("[]", "lockVersion", id="a list"),
        pytest.param('{"lockVersion": 2, "servers": {}}', "version 2", id="another version"),
        pytest.param('{"lockVersion": 1, "servers": {"a": 1}}', "'a' is not whole", id="server"),
        pytest.param(edited(definition=[]), "'mail:send_mail' is not whole", id="tool"),
        pytest.param(edited(fingerprint="0" * 64), "is not that of its definition", id="digest"),
        pytest.param(
            edited(definition=MUTATIONS["title"]), "is not that of its definition", id="definition"
        ),
    ],
)
def test_a_damaged_file_is_refused_and_says_where(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_text(text)
