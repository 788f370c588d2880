"""The pack of typical requests that ships with the program."""

from __future__ import annotations

import json
import runpy
import zipfile
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.search.examples.pack import FILE, MANIFEST
from discovery_engine.trust.scanner import FindingKind, scan_text

ROOT = Path(__file__).resolve().parents[4]
MOST_TEXTS, LONGEST = 20, 200  # of `examples` in `overrides`


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "pack_requests.py"))


@pytest.fixture(scope="module")
def members() -> dict[str, str]:
    with zipfile.ZipFile(FILE) as packed:
        return {name: packed.read(name).decode() for name in packed.namelist()}


@pytest.mark.requirement("ENR-3")
def test_the_pack_is_what_its_script_makes(script: dict[str, Any], members: dict[str, str]) -> None:
    made = script["made"]()

    assert {name: text for name, text in members.items() if name != MANIFEST} == made


@pytest.mark.thorough
@pytest.mark.requirement("ENR-3")
def test_no_shipped_request_hides_anything(members: dict[str, str]) -> None:
    """Words that would be orders in a description are honest in a request: of 17,808 583 are."""
    hiding = {FindingKind.HIDDEN_TEXT, FindingKind.PAYLOAD, FindingKind.SECRET}
    texts = [
        text
        for name, packed in members.items()
        if not name.endswith(("manifest.json", "signatures.json"))
        for requests in json.loads(packed).values()
        for text in requests
    ]

    found = (finding for text in texts for finding in scan_text(text, where="example"))

    assert [finding for finding in found if finding.kind in hiding] == []
