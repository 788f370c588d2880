"""What a request asks for."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.operations.english_requests import ASKED
from discovery_engine.search.operations.operation import Operation
from discovery_engine.search.operations.request_reading import (
    RequestReading,
    read_request,
    wanted_part,
)
from discovery_engine.search.text.lexicon import default_lexicon
from discovery_engine.search.text.tokenizer import words
from tests.rows import rows

CREATE, READ, DELETE = Operation.CREATE, Operation.READ, Operation.DELETE


def read(text: str, *unknown: str) -> RequestReading:
    lexicon = default_lexicon()
    return read_request(text, lexicon, lexicon.detect_language(text), unknown)


@rows(
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
        ("raise the rent to 780", Operation.UPDATE),
        ("allocate the next free address", Operation.CREATE),
    ],
)
def test_the_verb_of_a_request_is_read_past_words_of_asking(
    text: str, operation: Operation
) -> None:
    found = read(text)

    assert found.operations & operation
    assert found.is_explicit


@rows(
    ("text", "operation"),
    [
        ("do a backup of the database", CREATE),
        ("could you do a backup of the database?", CREATE),
        ("do the deployment", Operation.RUN),
        ("do a quick search for flats", Operation.SEARCH),
        ("do me a favour and delete the branch", DELETE),
        ("don't forget to restart the server", Operation.RUN),
        ("have the bot restart the server", Operation.RUN),
        ("have someone close the ticket", Operation.STOP),
        ("have a look at the pull request", READ),
        ("why not delete the old ones", DELETE),
    ],
)
def test_an_order_may_begin_like_a_question(text: str, operation: Operation) -> None:
    found = read(text)

    assert found.operations & operation
    assert found.is_explicit


@rows(
    "text",
    [
        "do we have invoices of May",
        "do any drafts exist",
        "do my backups work?",
        "don't we have a draft",
        "have you seen the error",
        "have the drafts been deleted",
        "have there been deletions",
        "when is the next release",
        "when's the next release",
        "where do I delete a draft",
        "where my order",
    ],
)
def test_a_question_has_a_subject_or_a_verb_behind_its_first_word(text: str) -> None:
    assert read(text).operations == ASKED
    assert read(text).is_explicit


@rows(
    ("text", "operation"),
    [
        ("when the export starts, delete the draft", DELETE),
        ("if the export starts then delete the draft", DELETE),
        ("once it is exported, please delete the draft", DELETE),
        ("where possible, delete duplicates", DELETE),
        ("do not list them, delete the old ones", DELETE),
        ("please don't just list them, delete the old ones", DELETE),
        ("can you not list them but delete the old ones", DELETE),
        ("instead of listing them, delete the old ones", DELETE),
        ("delete the old ones, do not list them", DELETE),
        ("Wenn der Build startet, lösche das Label", DELETE),
        ("Liste die Dateien nicht auf, lösche die alten", DELETE),
        ("als de build start, verwijder het bestand", DELETE),
        ("Toon de bestanden niet, verwijder ze", DELETE),
        ("si el servicio arranca, borra el archivo", DELETE),
        ("no listes los archivos, borra los viejos", DELETE),
        ("quand le service démarre, supprime le fichier", DELETE),
        ("ne liste pas les fichiers, supprime les anciens", DELETE),
        ("quando il servizio parte, elimina il file", DELETE),
        ("non elencare i file, elimina i vecchi", DELETE),
        ("quando o serviço iniciar, apague o arquivo", DELETE),
        ("não liste os arquivos, apague os antigos", DELETE),
        ("если сервис запускается, удали файл", DELETE),
        ("не показывай файлы, удали старые", DELETE),
        ("如果服务启动\uff0c删除文件", DELETE),
        ("不要列出文件\uff0c删除旧的", DELETE),
        ("古いものを削除して、新しいものは表示しないで", DELETE),
        ("파일을 나열하지 말고 오래된 것을 삭제해 줘", DELETE),
    ],
)
def test_conditions_and_what_is_negated_are_passed_over(text: str, operation: Operation) -> None:
    found = read(text)

    assert found.operations == operation
    assert found.is_explicit


@rows(
    "text",
    [
        "do not delete the branch",
        "please don't delete the branch",
        "never delete a branch",
        "if it fails, do not delete it",
        "lösche die Dateien nicht",
        "verwijder de bestanden niet",
        "no borres el archivo",
        "ne supprime pas le fichier",
        "non eliminare il file",
        "não apague o arquivo",
        "не удаляй файл",
        "不要删除文件",
        "ファイルを削除しないで",
        "파일을 삭제하지 마세요",
    ],
)
def test_what_is_only_negated_is_not_asked_for(text: str) -> None:
    assert read(text).operations == 0
    assert not read(text).is_explicit


@rows(
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


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    found = read(text)

    assert all(0 <= one.start < one.end for one in found.arguments)
    assert all(a.end <= b.start for a, b in pairwise(found.arguments))


def test_a_name_is_where_it_stands_before_or_behind_other_arguments() -> None:
    text = 'please ask Ana in "long quoted text" about PROJ-17 and then tell Bob'

    found = read(text)

    assert [one.text(text) for one in found.arguments] == [
        *("Ana", '"long quoted text"', "PROJ-17", "Bob")
    ]


@pytest.mark.requirement("REL-73")
@rows(
    ("text", "unwanted"),
    [
        ("draft a mail to Bob, but don't send it", "don't send it"),
        ("draft a mail to Bob, and please do not send it", "and please do not send it"),
        ("archive the channel without deleting its history", "without deleting its history"),
        ("the open issues, not the archived ones", "not the archived ones"),
        ("files from the shared drive not from my laptop", "not from my laptop"),
        ("the mails instead of listing the labels and the drafts", "instead of listing the labels"),
        ("list the files. Do not delete any. Then count them", "Do not delete any."),
        (
            "I don't want the code in the answer but a picture",
            "I don't want the code in the answer",
        ),
        ("no need to open the page, take a screenshot", "no need to open the page"),
        ("zeig mir die Dateien, ohne etwas zu löschen", "ohne etwas zu löschen"),
        ("speichere den Entwurf, aber sende ihn nicht", "sende ihn nicht"),
        ("toon de bestanden zonder iets te verwijderen", "zonder iets te verwijderen"),
        ("lista los archivos sin borrar nada", "sin borrar nada"),
        ("liste les fichiers sans rien supprimer", "sans rien supprimer"),
        ("elenca i file senza cancellarli", "senza cancellarli"),
        ("liste os arquivos sem apagar nada", "sem apagar nada"),
        ("покажи файлы, ничего не удаляя", "ничего не удаляя"),
        ("列出文件\uff0c不要删除", "不要删除"),
        ("削除せずに一覧を表示して", "削除せずに"),
        ("삭제하지 말고 보관해 줘", "삭제하지 말고"),
    ],
)
def test_what_is_not_wanted_is_left_out(text: str, unwanted: str) -> None:
    wanted = wanted_part(text, default_lexicon().detect_language(text))

    assert unwanted not in wanted
    kept = text.replace(unwanted, "").strip(" ,\uff0c")
    assert sorted(wanted.replace(" ", "")) == sorted(kept.replace(" ", ""))


@pytest.mark.requirement("REL-73")
@rows(
    "text",
    [
        "tasks without a due date",
        "a video without sound",
        "what in my working copy isn't staged yet",
        "why is the build not working",
        "the login page is not in the sitemap",
        "I don't understand what it says, translate it",
        "don't forget to send the mail",
        "all details, including but not limited to the name and the date",
        "turn on do not disturb",
        "reply 'please do not send it' to the last mail",
        "do not delete the branch",
        "zeig mir Tickets, die nicht erledigt sind",
        "Video ohne Ton",
        "lista los pedidos que no están pagados",
        "tareas sin fecha",
    ],
)
def test_properties_and_complaints_are_not_left_out(text: str) -> None:
    assert wanted_part(text, default_lexicon().detect_language(text)) == text


@pytest.mark.requirement("REL-73")
@given(st.text("dno't without ,.;not the send \n", max_size=60))
def test_of_any_text_something_is_wanted(text: str) -> None:
    wanted = wanted_part(text, None)

    assert words(wanted) or not words(text)
    assert set(words(wanted)) <= set(words(text))
