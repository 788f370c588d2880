"""The data files that a script fitted are those that their manifest describes."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import date
from pathlib import Path

from tests.rows import rows

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "discovery_engine" / "search" / "data"
ENTRIES = json.loads((DATA / "manifest.json").read_text("utf-8"))
FITTED = sorted(
    file for file in DATA.rglob("*.txt") if file.read_text("utf-8").startswith("# Written by ")
)
DIGEST = re.compile("[0-9a-f]{64}")
IDF = "inverse_document_frequency.txt"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_every_fitted_file_has_an_entry_and_every_entry_a_file() -> None:
    assert sorted(ENTRIES) == [file.name for file in FITTED] != []


@rows("file", FITTED, ids=lambda file: file.name)
def test_a_fitted_file_is_the_one_that_its_script_wrote(file: Path) -> None:
    entry = ENTRIES[file.name]

    assert entry["sha256"] == digest(file), "fit it again; a file changed by hand is not fitted"
    assert file.read_text("utf-8").splitlines()[0] == f"# Written by {entry['script']}"
    assert (ROOT / entry["script"]).is_file()
    assert date.fromisoformat(entry["fitted"])


@rows("file", FITTED, ids=lambda file: file.name)
def test_a_manifest_names_what_a_file_was_fitted_from_and_how_well(file: Path) -> None:
    entry = ENTRIES[file.name]

    assert all(DIGEST.fullmatch(one) for one in entry["inputs"].values())
    assert not any(name.startswith("/") or ".." in name for name in entry["inputs"])
    assert entry.get("note") or (entry["inputs"] and entry["metrics"])


@rows("name", sorted(file.name for file in DATA.glob("confidence*.txt")))
def test_a_model_was_fitted_with_the_table_of_words_that_is_shipped(name: str) -> None:
    assert ENTRIES[name]["inputs"][IDF] == digest(DATA / IDF)
