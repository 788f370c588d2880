from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.secrets.references import (
    REDACTED,
    MalformedReferenceError,
    UnsetReference,
    redact_literals,
    references,
)
from discovery_engine.secrets.resolver import EnvironmentResolver, resolve
from tests.rows import rows

ENVIRON = EnvironmentResolver(
    {"HOST": "example.com", "EMPTY": "", "TRICK": "${HOST}", "HALF": "${HO"}
)


@pytest.mark.requirement("CFG-20")
@rows(
    ("text", "value"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("plain $HOST $ {HOST} }", "plain $HOST $ {HOST} }", id="no reference"),
        pytest.param("https://${HOST}/mcp", "https://example.com/mcp", id="in the middle"),
        pytest.param("${HOST}${HOST}", "example.comexample.com", id="side by side"),
        pytest.param("${EMPTY}", "", id="set but empty"),
        pytest.param("${EMPTY:-other}", "other", id="default for empty"),
        pytest.param("${GONE:-other}", "other", id="default for unset"),
        pytest.param("${GONE:-}", "", id="empty default"),
        pytest.param("${GONE:-a:-b c}", "a:-b c", id="default with the same signs"),
        pytest.param("${HOST:-other}", "example.com", id="default not needed"),
        pytest.param("$${HOST}", "${HOST}", id="escaped"),
        pytest.param("$$${HOST}", "$${HOST}", id="a dollar before an escaped one"),
        pytest.param("${TRICK}", "${HOST}", id="a value is not read again"),
        pytest.param("${HALF}ST}", "${HOST}", id="nor together with what follows"),
    ],
)
def test_references_are_resolved_in_one_pass(text: str, value: str) -> None:
    assert resolve(text, ENVIRON) == value


@pytest.mark.requirement("CFG-20")
@rows(
    "text",
    ["${", "${}", "${HOST", "a${1A}", "${A B}", "${A:default}", "${A:-${B}}", "${file:}", "${ A}"],
)
def test_what_begins_no_reference_is_an_error(text: str) -> None:
    with pytest.raises(MalformedReferenceError):
        resolve(text, ENVIRON)


def test_the_spelling_of_other_programs_is_explained() -> None:
    with pytest.raises(MalformedReferenceError, match=r"\$\{NAME\}"):
        references("${env:TOKEN}")


@pytest.mark.requirement("CFG-20")
@rows(
    ("content", "value"),
    [
        pytest.param(b"token", "token", id="as it is"),
        pytest.param(b"token\n", "token", id="less a newline"),
        pytest.param(b"token\r\n", "token", id="less a newline of Windows"),
        pytest.param(b" two\nlines\n\n", " two\nlines\n", id="but only one"),
        pytest.param(b"${HOST}", "${HOST}", id="and is not read again"),
        pytest.param(b"x" * 65_536, "x" * 65_536, id="at the limit"),
    ],
)
def test_a_file_stands_for_its_content(tmp_path: Path, content: bytes, value: str) -> None:
    (tmp_path / "token").write_bytes(content)

    assert resolve("${file:token}", ENVIRON, base_dir=str(tmp_path)) == value
    assert resolve(f"${{file:{tmp_path}/token}}", ENVIRON) == value
    assert resolve("${file:~/token}", EnvironmentResolver({"HOME": str(tmp_path)})) == value


@pytest.mark.requirement("CFG-20")
def test_a_folder_or_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for path in ("pipe", "."):
        with pytest.raises(UnsetReference, match=r"not a (regular )?file"):
            resolve(f"${{file:{path}}}", ENVIRON, base_dir=str(tmp_path))


@rows(
    ("text", "shown"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("hunter2", REDACTED, id="literal"),
        pytest.param("Bearer ${TOKEN}", f"{REDACTED}${{TOKEN}}", id="reference"),
        pytest.param("${A}${file:b}", "${A}${file:b}", id="references only"),
        pytest.param("${A:-hunter2}", f"${{A:-{REDACTED}}}", id="default"),
        pytest.param("${A:-}", "${A:-}", id="empty default"),
        pytest.param("${broken", REDACTED, id="malformed"),
    ],
)
def test_a_redacted_text_shows_its_references_alone(text: str, shown: str) -> None:
    assert redact_literals(text) == shown


@given(text=st.text())
def test_every_text_can_be_written_so_that_it_stands_for_itself(text: str) -> None:
    assert resolve(text.replace("${", "$${"), ENVIRON) == text


@given(text=st.text(alphabet="${}:-AB \n"))
def test_what_is_found_is_what_is_resolved(text: str) -> None:
    try:
        found = references(text)
    except MalformedReferenceError:
        assert redact_literals(text) == REDACTED
        return

    values = {reference.name: "x" for reference in found}

    assert references("".join(map(str, found))) == found
    assert resolve(text, EnvironmentResolver(values)).count("x") == len(found)
