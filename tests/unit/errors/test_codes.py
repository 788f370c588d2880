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
from discovery_engine.errors import DiscoveryError, codes
from discovery_engine.errors.codes import CODES, FAMILIES, cure_of
from discovery_engine.tools.findings import Finding, FindingKind, Severity
from scripts.codes import PAGE, updated

pytestmark = pytest.mark.requirement("ERR-1")

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
    for kind in FindingKind:
        yield Finding(kind, Severity.NOTICE, "", "", "").code


def test_every_code_is_used_and_every_code_that_is_used_is_in_the_table() -> None:
    written = set(constants())

    assert CODES.keys() - written == set()
    assert all(map(cure_of, CODES))
    unknown = {text for text in written if CODE.fullmatch(text)} - CODES.keys()
    assert unknown - CAUGHT_ONLY == NAMES


def test_the_code_of_every_class_of_errors_is_its_own_and_in_the_table() -> None:
    def family(error: type[DiscoveryError]) -> Iterator[type[DiscoveryError]]:
        yield error
        for child in error.__subclasses__():
            yield from family(child)

    raised = [error.code for error in family(DiscoveryError) if error.code not in CAUGHT_ONLY]

    assert set(raised) <= CODES.keys()
    assert len(CODES) == sum(map(len, FAMILIES.values()))


def test_the_page_shows_the_table() -> None:
    page = PAGE.read_text("utf-8")

    assert page == updated(page), "run `make format`"
    assert "- `CONFIG_MISNAMED` (warning): " in page
