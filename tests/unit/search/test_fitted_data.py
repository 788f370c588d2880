"""The data files that a script fitted are those that their manifest describes."""

from __future__ import annotations

import hashlib
import json
from datetime import date
from pathlib import Path

from tests.rows import rows

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "discovery_engine" / "search" / "data"
ENTRIES = json.loads((DATA / "manifest.json").read_text("utf-8"))
FITTED = sorted(
    file for file in DATA.rglob("*.txt") if file.read_text("utf-8").startswith("# Written by ")
)
IDF = "inverse_document_frequency.txt"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@rows("file", FITTED, ids=lambda file: file.name)
def test_a_fitted_file_is_the_one_that_its_script_wrote(file: Path) -> None:
    entry = ENTRIES[file.name]

    assert entry["sha256"] == digest(file), "fit it again; a file changed by hand is not fitted"
    assert file.read_text("utf-8").splitlines()[0] == f"# Written by {entry['script']}"
    assert (ROOT / entry["script"]).is_file()
    assert date.fromisoformat(entry["fitted"])


@rows("name", sorted(file.name for file in DATA.glob("confidence*.txt")))
def test_a_model_was_fitted_with_the_table_of_words_that_is_shipped(name: str) -> None:
    assert ENTRIES[name]["inputs"][IDF] == digest(DATA / IDF)
