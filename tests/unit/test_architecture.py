from __future__ import annotations

import re
from pathlib import Path

import discovery_engine
from scripts.architecture import PAGE, updated

ENGINE = Path(discovery_engine.__file__).parent


def test_the_page_shows_the_layers_that_are_enforced() -> None:
    page = PAGE.read_text("utf-8")

    assert page == updated(page), "run `make format`"
    assert "| `agent` |" in page


def test_the_glossary_is_short_and_names_packages_that_exist() -> None:
    glossary = PAGE.read_text("utf-8").partition("## Glossary")[2].partition("\n## ")[0]

    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| `(\w+)` \|$", glossary, re.MULTILINE)

    assert 20 <= len(rows) <= 40
    assert len({term for term, _ in rows}) == len(rows)
    assert all((ENGINE / name).is_dir() or (ENGINE / f"{name}.py").is_file() for _, name in rows)


def test_the_root_of_the_engine_has_at_most_eight_modules() -> None:
    assert len(list(ENGINE.glob("*.py"))) <= 8
