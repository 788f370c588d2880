"""Requests in other languages, and the labelled ones of `languages.yaml`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from discovery_engine.sync import SyncEngine
from tests.catalogs import names, opened, tool
from tests.rows import rows

# The share of requests whose first hit is right; a little below what is reached.
FLOORS = {
    "german": 0.80,
    "german_own": 0.83,
    "french": 0.88,
    "french_own": 0.91,
    "spanish": 0.92,
    "spanish_own": 0.66,
    "chinese": 0.92,
    "chinese_own": 0.75,
    "german_at_work": 0.75,
    "french_at_work": 0.93,
    "spanish_at_work": 0.87,
    "chinese_at_work": 0.87,
    "portuguese": 0.93,
    "italian": 0.93,
    "dutch": 0.90,
    "russian": 0.85,
    "japanese": 0.93,
    "korean": 0.93,
    "names": 0.90,
}
ANY = {"minConfidence": 0}
ENGLISH = [
    tool("delete_file", "Remove a file"),
    tool("create_issue", "Open a new issue"),
    tool("weather", "The forecast for a city"),
    tool("cities", "Angels of a place, weathered"),
]
FOREIGN = {
    "german": ["Löscht eine Datei", "Zeigt das Wetter"],
    "french": ["Supprime un fichier", "Affiche la météo"],
    "spanish": ["Borra un archivo", "Muestra el tiempo"],
    "chinese": ["删除一个文件", "查看天气"],
    "portuguese": ["Exclui um arquivo", "Mostra a previsão do tempo"],
    "italian": ["Elimina uno dei file", "Mostra le previsioni"],
    "dutch": ["Verwijdert een bestand", "Toont het weer"],
    "russian": ["Удаляет файл", "Показывает погоду"],
    "japanese": ["ファイルを削除します", "天気を表示します"],
    "korean": ["파일을 삭제합니다", "날씨를 보여줍니다"],
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncEngine]:
    foreign = {
        language: [tool("x", delete), tool("y", weather)]
        for language, (delete, weather) in FOREIGN.items()
    }
    folder = tmp_path_factory.mktemp("languages")
    with opened(folder, {"english": ENGLISH, **foreign}, search=ANY) as engine:
        yield engine


@pytest.mark.requirement("REL-45")
@rows(
    "query",
    [
        "Datei löschen",
        "dateien loeschen",
        "Dateilöschung",
        "supprimez le fichier",
        "borrar un fichero",
        "删除文件",
        "刪除檔案",
        "exclua um arquivo",
        "eliminare il file",
        "verwijder een bestand",
        "удалите файлы",
        "ファイルを消してください",
        "ﾌｧｲﾙ削除",
        "파일을 지워줘",
    ],
)
def test_a_request_in_another_language_finds_english_tools(engine: SyncEngine, query: str) -> None:
    assert names(engine.search(query, server="english"))[0] == "delete_file"


@pytest.mark.requirement("REL-45")
@rows("language", FOREIGN)
def test_an_english_request_finds_tools_of_another_language(
    engine: SyncEngine, language: str
) -> None:
    assert names(engine.search("delete a file", server=language))[0] == "x"


@pytest.mark.thorough
@pytest.mark.requirement("REL-47")
def test_labelled_requests_find_their_tools(tmp_path: Path) -> None:
    labelled = yaml.safe_load(Path(__file__).with_name("languages.yaml").read_text("utf-8"))
    described = {
        server: [tool(name, text) for name, text in tools.items()]
        for server, tools in labelled["servers"].items()
    }
    named = labelled["names"]
    (tmp_path / "names").mkdir()
    with opened(tmp_path, described, search=ANY) as engine:
        shares = {name: right_first(engine, rows) for name, rows in labelled["queries"].items()}
    with opened(tmp_path / "names", named["servers"], search=ANY) as engine:
        shares["names"] = right_first(engine, named["queries"])

    assert shares.keys() == FLOORS.keys()
    assert {name: share for name, share in shares.items() if share < FLOORS[name]} == {}


def right_first(engine: SyncEngine, requests: list[dict[str, str]]) -> float:
    """The share of requests whose first hit is right."""
    found = [next(iter(engine.search(one["query"]).hits), None) for one in requests]
    right = [
        hit is not None and f"{hit.entry.tool.server}/{hit.entry.tool.name}" == one["tool"]
        for hit, one in zip(found, requests, strict=True)
    ]
    return sum(right) / len(right)
