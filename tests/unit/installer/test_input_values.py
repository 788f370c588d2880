from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.errors import InstallRefusedError, InvalidInputError
from discovery_engine.marketplace.entry import Input
from discovery_engine.marketplace.installer.offered_inputs import InputValues, joined, literal
from discovery_engine.secrets.references import split
from tests.rows import rows


def an_input(name: str = "FOLDER", **members: Any) -> Input:
    return Input(name, members.pop("kind", "environment"), **members)


def texts(one: Input, stored: frozenset[str] = frozenset(), **given: Any) -> tuple[str, ...]:
    return InputValues("files", given, stored=stored).texts(one)


@pytest.mark.requirement("INS-10")
@rows(
    ("members", "value", "expected"),
    [
        pytest.param({}, "plain", "plain", id="text"),
        pytest.param({"choices": ("a", "b")}, "b", "b", id="choice"),
        pytest.param({"format": "number"}, "1e3", "1e3", id="number"),
        pytest.param({"format": "boolean"}, "Yes", "true", id="boolean"),
        pytest.param({}, "${MY_FOLDER}", "${MY_FOLDER}", id="reference"),
        pytest.param({"choices": ("a",)}, "${MY_CHOICE}", "${MY_CHOICE}", id="reference to choice"),
    ],
)
def test_a_value_that_fits_is_taken(members: dict[str, Any], value: str, expected: str) -> None:
    assert texts(an_input(**members), FOLDER=value) == (expected,)


@pytest.mark.requirement("INS-10")
@rows(
    ("members", "value", "message"),
    [
        pytest.param({"choices": ("a", "b")}, "c", 'must be one of "a", "b"', id="choice"),
        pytest.param({"format": "number"}, "many", "must be a number", id="number"),
        pytest.param({"format": "number"}, "nan", "must be a number", id="no number"),
        pytest.param({"format": "boolean"}, "2", "must be true or false", id="boolean"),
        pytest.param({}, "a\0b", "control character (U+0000)", id="zero"),
        pytest.param({}, "a\nb", "control character (U+000A)", id="line end"),
        pytest.param({}, "${", "no closing", id="malformed reference"),
        pytest.param({}, ["a", "b"], "takes one value, not 2", id="two values"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_name(
    members: dict[str, Any], value: Any, message: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        texts(an_input(**members), FOLDER=value)

    assert caught.value.message.startswith("FOLDER")
    assert message in caught.value.message


@pytest.mark.requirement("INS-10")
def test_a_value_that_nothing_asks_for_is_refused_with_the_nearest() -> None:
    values = InputValues("files", {"FOLDR": "x"})
    values.texts(an_input())

    with pytest.raises(InvalidInputError, match="takes no FOLDR") as caught:
        values.require_known()

    assert "FOLDER" in caught.value.hint


@pytest.mark.requirement("INS-10")
def test_the_home_folder_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")

    assert texts(an_input(), FOLDER="~/notes") == ("/home/ada/notes",)
    assert texts(an_input(), FOLDER="~ada") == ("~ada",)


@pytest.mark.requirement("INS-10")
def test_a_template_is_filled_with_its_variables() -> None:
    user = an_input("user", kind="variable", is_required=True)
    header = an_input("X-User", kind="header", value="User {user}; {other}", variables=(user,))

    assert texts(header, user="ada") == ("User ada; {other}",)


@pytest.mark.requirement("INS-10")
def test_a_template_whose_required_variable_is_missing_is_unset() -> None:
    values = InputValues("files", {})
    token = an_input("token", kind="variable", is_required=True)

    assert values.texts(an_input("X-Key", value="Key {token}", variables=(token,))) == ()
    assert [one.key for one in values.asked.values() if one.is_missing] == ["token"]


@pytest.mark.requirement("INS-11")
@rows(
    "one",
    [
        pytest.param(an_input("ACCESS", is_secret=True), id="by its publisher's word"),
        pytest.param(an_input("API_TOKEN"), id="by its name"),
        pytest.param(an_input("--api-key", kind="named"), id="by its flag"),
    ],
)
def test_a_secret_is_stored_and_referred_to(one: Input) -> None:
    key = one.name.lstrip("-")
    values = InputValues("files", {key: "hunter-2"})

    assert values.texts(one) == (f"${{secret:files/{key}}}",)
    assert values.to_store == {f"files/{key}": "hunter-2"}
    assert "hunter-2" not in repr(values.asked)
    assert values.plain == {}


@pytest.mark.requirement("INS-11")
def test_a_reference_to_a_secret_stays_one() -> None:
    values = InputValues("files", {"API_TOKEN": "${MY_TOKEN}"})

    assert values.texts(an_input("API_TOKEN")) == ("${MY_TOKEN}",)
    assert values.to_store == {}
    assert values.plain == {"API_TOKEN": ("${MY_TOKEN}",)}


@pytest.mark.requirement("INS-11")
def test_a_secret_that_is_stored_already_is_not_asked_for_again() -> None:
    values = InputValues("files", {}, stored=frozenset({"files/API_TOKEN"}))

    assert values.texts(an_input("API_TOKEN", is_required=True)) == ("${secret:files/API_TOKEN}",)
    assert not any(one.is_missing for one in values.asked.values())


def test_files_and_folders_that_the_owner_named_are_noted(tmp_path: Path) -> None:
    values = InputValues("files", {"A": str(tmp_path), "B": "/no/such/place", "C": "/"})
    for name in "ABC":
        values.texts(an_input(name))

    assert values.paths == [str(tmp_path)]


@pytest.mark.requirement("INS-4")
@given(st.text())
def test_no_text_of_an_entry_refers_to_anything(text: str) -> None:
    assert split(literal(text)) == ((text,) if text else ())


@pytest.mark.requirement("INS-4")
def test_a_default_and_a_fixed_value_of_an_entry_refer_to_nothing() -> None:
    assert texts(an_input(default="${file:/etc/passwd}")) == ("$${file:/etc/passwd}",)
    fixed = an_input(value="${secret:github/TOKEN}-{a}-${HOME}")
    assert texts(fixed) == ("$${secret:github/TOKEN}-{a}-$${HOME}",)


@pytest.mark.requirement("INS-4")
@given(st.lists(st.text("${}a:", max_size=6), max_size=4))
def test_no_two_texts_of_an_entry_become_a_reference_together(pieces: list[str]) -> None:
    whole = joined(map(literal, pieces))

    assert split(whole) == (("".join(pieces),) if "".join(pieces) else ())


@pytest.mark.requirement("INS-4")
def test_a_default_within_a_fixed_value_refers_to_nothing() -> None:
    user = an_input("user", kind="variable", default="{secret:github/TOKEN}")

    assert texts(an_input(value="${user}", variables=(user,))) == ("$${secret:github/TOKEN}",)


@pytest.mark.requirement("INS-4")
def test_a_dollar_sign_before_a_reference_is_refused() -> None:
    user = an_input("user", kind="variable")

    with pytest.raises(InstallRefusedError, match="a dollar sign"):
        texts(an_input(value="${user}", variables=(user,)), user="${USER}")


@pytest.mark.requirement("INS-11")
@rows("is_secret", [True, False])
@rows("value", ["hunter-2", "a${HOME}b", "${", "${file:/etc/passwd}", "$${x"])
def test_what_is_given_as_a_secret_is_stored_as_it_is_and_nothing_in_it_is_a_reference(
    value: str, *, is_secret: bool
) -> None:
    values = InputValues("files", {}, secrets={"OPENER": value})

    found = values.texts(an_input("OPENER", is_secret=is_secret))

    assert found == ("${secret:files/OPENER}",)
    assert values.to_store == {"files/OPENER": value}
    assert values.plain == {}
    assert values.asked["OPENER"].stored_as == "files/OPENER"


@pytest.mark.requirement("INS-40")
def test_earlier_values_stay_while_they_are_asked_for_and_new_ones_replace_them() -> None:
    values = InputValues("files", {"MODE": "new"}, earlier={"MODE": "old", "GONE": "x", "B": "b"})

    found = [values.texts(an_input(name)) for name in ("MODE", "B")]
    values.require_known()

    assert found == [("new",), ("b",)]
    assert values.plain == {"MODE": ("new",), "B": ("b",)}


@pytest.mark.requirement("INS-40")
def test_an_earlier_value_that_does_not_fit_any_more_is_named_with_the_next_step() -> None:
    values = InputValues("files", {}, earlier={"MODE": "old"})

    with pytest.raises(InvalidInputError, match="does not fit: MODE must be one of") as caught:
        values.texts(an_input("MODE", choices=("a", "b")))

    assert caught.value.hint == "give another value: `--with MODE=…`"
