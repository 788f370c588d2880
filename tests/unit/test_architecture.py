from __future__ import annotations

from scripts.architecture import PAGE, updated


def test_the_page_shows_the_layers_that_are_enforced() -> None:
    page = PAGE.read_text("utf-8")

    assert page == updated(page), "run `make format`"
    assert "| `agent` |" in page
