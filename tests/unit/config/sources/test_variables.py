from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.sources.variables import VariableSyntax, escape
from discovery_engine.secrets.references import split
from discovery_engine.secrets.resolver import EnvironmentResolver, resolve
from tests.rows import rows

ALL = (
    "escape",
    "brace",
    "env",
    "file",
    "input",
    "curly_env",
    "curly_file",
    "secrets",
    "bare",
    "percent",
)
KNOWN = {"workspaceFolder": "/home/me/${x}", "/": "/"}
TEXTS = st.lists(
    st.sampled_from(
        [
            "$",
            "{",
            "}",
            "${",
            "A",
            "env:",
            "file:",
            "input:",
            "secrets.",
            ":-",
            "%",
            " ",
            "/",
            "${{",
        ]
    )
    | st.text(max_size=3)
).map("".join)


def dialect(*syntaxes: str) -> VariableSyntax:
    return VariableSyntax("A client", syntaxes, folder=Path("/folder"))


@pytest.mark.requirement("SRC-10")
@rows(
    ("syntax", "text", "translated"),
    [
        pytest.param("brace", "a ${B} ${C:-d}", "a ${B} ${C:-d}", id="brace"),
        pytest.param("brace", "${B:-${C}}", "$${B:-${C}}", id="brace-nested"),
        pytest.param("brace", "${env:B} $B", "$${env:B} $B", id="brace-only"),
        pytest.param("brace", "$${B}", "$$${B}", id="brace-after-dollar"),
        pytest.param("escape", "$${B} ${B}", "$${B} $${B}", id="escape"),
        pytest.param("env", "x${env:B}y", "x${B}y", id="env"),
        pytest.param("env", "${env:B:-c} ${B}", "${B:-c} $${B}", id="env-default"),
        pytest.param(
            "file",
            "${file:key} ${file:/k} ${file:~/k}",
            "${file:/folder/key} ${file:/k} ${file:~/k}",
            id="file",
        ),
        pytest.param("input", "${input:my key-1}", "${INPUT_MY_KEY_1}", id="input"),
        pytest.param("curly_env", "{env:B} ${env:B}", "${B} $${env:B}", id="curly-env"),
        pytest.param("curly_file", "{file:./k}", "${file:/folder/k}", id="curly-file"),
        pytest.param("secrets", "${{ secrets.B }} ${{inputs.C}}", "${B} ${C}", id="secrets"),
        pytest.param("colon", "${B:80} ${B:?c}", "${B:-80} $${B:?c}", id="colon"),
        pytest.param("bare", "$B-$C pa$$word 5$", "${B}-${C} pa$$word 5$", id="bare"),
        pytest.param("percent", "%B%", "%B%", id="percent-outside-env"),
    ],
)
def test_a_syntax_is_translated_and_all_others_stay_text(
    syntax: str, text: str, translated: str
) -> None:
    assert dialect(syntax).translate(text) == translated


@pytest.mark.requirement("SRC-10")
def test_percent_signs_hold_a_variable_in_env_alone() -> None:
    assert dialect("percent").translate("%B% 5%", in_env=True) == "${B} 5%"


def test_a_known_variable_is_its_value_and_no_reference_in_it_counts() -> None:
    translator = VariableSyntax("A client", ("brace",), KNOWN)

    assert translator.translate("${workspaceFolder}${/}${A}") == "/home/me/$${x}/${A}"


@given(TEXTS, st.sets(st.sampled_from(ALL)), st.booleans())
def test_every_translation_is_well_formed(text: str, syntaxes: set[str], in_env: bool) -> None:
    translator = VariableSyntax("A client", tuple(syntaxes), KNOWN, Path("/folder"))

    split(translator.translate(text, in_env=in_env))


@given(TEXTS)
def test_literal_text_survives_translation_and_resolving(text: str) -> None:
    assert resolve(dialect().translate(text), EnvironmentResolver({})) == text
    assert resolve(escape(text), EnvironmentResolver({})) == text
