"""The one table of codes: complete, used, and shown on the page of errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import discovery_cli
import discovery_engine
import discovery_server
from discovery_cli.exit_codes import exit_code
from discovery_engine.diagnostics import Diagnostic, Origin, codes
from discovery_engine.diagnostics.codes import CODES, FAMILIES
from discovery_engine.errors import DiscoveryError
from scripts.codes import PAGE, updated
from tests.unit.test_errors import ERRORS

PACKAGES = (discovery_engine, discovery_server, discovery_cli)
FAMILY = {code.partition("_")[0] for code in CODES if "_" in code}
CODE = re.compile(rf"(?:{'|'.join(sorted(FAMILY))})_[A-Z_]+")
QUOTED = re.compile(r'"[A-Z_]{3,}"')
NAMES = {"SOURCE_TYPES"}  # of variables, in an `__all__`
CAUGHT_ONLY = {"DISCOVERY_ERROR", "NOT_FOUND", "DISABLED"}


def constants() -> Iterator[str]:
    """The texts of files that write down one like a code, but for the table itself."""
    for package in PACKAGES:
        for file in Path(package.__path__[0]).rglob("*.py"):
            text = file.read_text("utf-8")
            if str(file) != codes.__file__ and QUOTED.search(text):
                for node in ast.walk(ast.parse(text)):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield node.value


@pytest.mark.requirement("ERR-4")
def test_every_code_is_used_and_every_code_that_is_used_is_in_the_table() -> None:
    written = set(constants())

    assert CODES.keys() - written == set()
    unknown = {text for text in written if CODE.fullmatch(text)} - CODES.keys()
    assert unknown - CAUGHT_ONLY == NAMES


@pytest.mark.requirement("ERR-4")
def test_the_code_of_every_class_of_errors_is_in_the_table() -> None:
    def family(error: type[DiscoveryError]) -> Iterator[str]:
        yield error.code
        for child in error.__subclasses__():
            yield from family(child)

    assert set(family(DiscoveryError)) - CAUGHT_ONLY <= CODES.keys()


@pytest.mark.requirement("ERR-1")
def test_a_code_is_in_one_family_and_each_row_is_a_sentence() -> None:
    assert len(CODES) == sum(map(len, FAMILIES.values()))
    for _, meaning, advice in CODES.values():
        assert meaning
        assert advice
        assert "|" not in meaning + advice


@pytest.mark.requirement("ERR-4")
def test_the_page_shows_the_table() -> None:
    page = PAGE.read_text("utf-8")

    assert page == updated(page), "run `make format`"
    assert "| `CONFIG_UNKNOWN_KEY` | error |" in page


@pytest.mark.requirement("CLI-1")
def test_the_page_has_the_exit_code_of_every_error() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    shown = {code: int(row[0]) for row in rows for code in re.findall(r"`(\w+)`", row[1])}

    assert {error.code: int(exit_code(error)) for error, _, _ in ERRORS}.items() <= shown.items()
    assert shown.keys() <= CODES.keys()


def test_a_diagnostic_has_the_severity_of_its_code() -> None:
    assert Diagnostic("CONFIG_SYNTAX", "wrong").severity == "error"
    assert Diagnostic("CONFIG_EXPOSED", "odd").severity == "warning"
    with pytest.raises(LookupError):
        _ = Diagnostic("TEXT_SECRET", "who knows").severity
    with pytest.raises(LookupError):
        _ = Diagnostic("NO_SUCH_CODE", "what").severity


@pytest.mark.requirement("ERR-5")
def test_a_diagnostic_is_shown_with_its_place_and_its_code() -> None:
    whole = Diagnostic("CONFIG_SYNTAX", "wrong", "mend it", "servers.a", Origin("/d/f", 3, 4))
    bare = Diagnostic("CONFIG_SYNTAX", "wrong")

    assert str(whole) == "/d/f:3:4: servers.a: wrong [CONFIG_SYNTAX] (mend it)"
    assert (str(bare), bare.sentence) == ("wrong [CONFIG_SYNTAX]", "wrong")
