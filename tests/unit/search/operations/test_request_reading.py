"""What a request asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.operations.operation import READING, Operation
from discovery_engine.search.operations.request_reading import RequestReading, read_request
from discovery_engine.search.text.lexicon import default_lexicon

CREATE, READ, DELETE = Operation.CREATE, Operation.READ, Operation.DELETE


def read(text: str, *unknown: str) -> RequestReading:
    lexicon = default_lexicon()
    return read_request(text, lexicon, lexicon.detect_language(text), unknown)


@pytest.mark.requirement("REL-61")
@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("delete the old branch", Operation.DELETE),
        ("could you please remove the label from this ticket", Operation.DELETE),
        ("get rid of the draft", Operation.DELETE),
        ("I'd like to cancel my order", Operation.STOP),
        ("please turn off the light", Operation.STOP),
        ("switch on dark mode", Operation.OPEN),
        ("let's roll back the deploy", Operation.OPEN),
        ("help me find a flat in Lisbon", Operation.SEARCH),
        ("upload report.pdf to the bucket", Operation.UPLOAD),
        ("how many open tickets do we have", Operation.COUNT),
        ("what changed since yesterday?", Operation.READ),
        ("i need to rename the sheet", Operation.UPDATE),
        ("set up a webhook", Operation.CREATE),
        ("write me a reply", Operation.CREATE),
    ],
)
def test_the_verb_of_a_request_is_read_past_words_of_asking(
    text: str, operation: Operation
) -> None:
    found = read(text)

    assert found.operations & operation
    assert found.is_explicit


@pytest.mark.requirement("REL-61")
@pytest.mark.parametrize(
    "text", ["show me the invoices", "give me the invoices", "open invoices", "invoices of May"]
)
def test_to_show_something_and_a_noun_phrase_are_to_read(text: str) -> None:
    assert read(text).operations & READING
    assert not read(text).operations & Operation.DELETE


@pytest.mark.requirement("REL-61")
def test_what_is_wanted_may_be_to_be_made_or_to_be_changed() -> None:
    assert read("I need a picture of a fox").operations & CREATE
    assert read("I want the invoice deleted").operations & DELETE
    assert not read("I want the invoice").operations & CREATE


@pytest.mark.requirement("REL-61")
def test_an_unknown_verb_before_a_determiner_changes_something() -> None:
    assert not read("zibble the header row").operations & READING


@pytest.mark.requirement("REL-61")
def test_a_verb_with_a_typo_is_read_if_no_tool_has_the_word() -> None:
    assert read("shedule a downtime", "shedule").operations & CREATE
    assert not read("crash reports of the phone").operations & DELETE  # not trash


@pytest.mark.requirement("REL-61")
def test_the_last_sentence_with_a_verb_decides() -> None:
    text = "I checked the logs already and found nothing. Now delete the pod. It is on node four."

    assert read(text).operations & DELETE


@pytest.mark.requirement("REL-61")
@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("Lösche den Branch im Repo", DELETE),
        ("Bitte den alten Ordner löschen", DELETE),
        ("supprime la note de bas de page", DELETE),
        ("borra las filas de mi hoja de cálculo", DELETE),
        ("elimina l'email programmata", DELETE),
        ("cria uma fatura em rascunho", CREATE),
        ("Verwijder de oude bestanden", DELETE),
        ("удали репозиторий", DELETE),
        ("このブランチを削除して", DELETE),
        ("删除这个文件", DELETE),
        ("이 브랜치를 삭제해 줘", DELETE),
    ],
)
def test_the_verb_is_read_in_ten_other_languages(text: str, operation: Operation) -> None:
    assert read(text).operations & operation


@pytest.mark.requirement("REL-61")
def test_a_request_is_about_many_things_or_about_one() -> None:
    assert read("list my open issues").is_of_many
    assert read("close PROJ-17").is_of_one
    assert not read("close the issue").is_of_many
    assert read("Zeig mir alle Tickets").is_of_many is None


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    found = read(text)

    assert all(0 <= one.start < one.end for one in found.arguments)
