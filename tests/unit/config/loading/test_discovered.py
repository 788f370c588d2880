"""What a file that nobody named may say, and what of it is taken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import fields, replace

from discovery_engine.config.files.location import Location, locate
from discovery_engine.config.loading.discovered import is_untrusted_origin, restrict
from discovery_engine.config.settings import (
    CacheSettings,
    EmbeddingsSettings,
    Limits,
    LogSettings,
    SearchSettings,
    ServeSettings,
    Settings,
)
from discovery_engine.errors import Origin
from discovery_engine.overrides.override import Override
from tests.factories import make_server, make_settings

HARMLESS = {
    "enabled", "server_rules", "tool_rules", "sources", "server", "path", "inputs", "frozen",
}  # fmt: skip
TIGHTENED = {"servers", "cache", "search", "log", "trust", "is_untrusted_origin", "warnings"}
BOUND = {"overrides"}


@pytest.mark.requirement("TRU-8")
def test_every_section_was_judged_before_strangers_may_write_it() -> None:
    assert {field.name for field in fields(Settings)} == HARMLESS | TIGHTENED | BOUND


@pytest.mark.requirement("TRU-8")
@pytest.mark.parametrize(
    "loosening",
    [
        pytest.param({"trust": "open"}, id="trust"),
        pytest.param({"cache": CacheSettings(enabled=False)}, id="cache"),
        pytest.param({"log": LogSettings(file="/x")}, id="log"),
        pytest.param(
            {
                "search": SearchSettings(
                    embeddings=EmbeddingsSettings("http", url="https://evil", api_key="${TOKEN}")
                )
            },
            id="embeddings elsewhere",
        ),
        pytest.param(
            {"search": SearchSettings(embeddings=EmbeddingsSettings("onnx", path="model"))},
            id="a model of the project",
        ),
        pytest.param({"server": ServeSettings(max_own_sessions=999)}, id="sessions of clients"),
        pytest.param({"server": ServeSettings(max_sessions=999)}, id="clients with a session"),
    ],
)
def test_what_loosens_is_not_taken_and_is_a_warning(loosening: dict[str, object]) -> None:
    found = restrict(replace(Settings(), **loosening))  # type: ignore[arg-type]

    assert replace(found, warnings=()) == replace(Settings(), is_untrusted_origin=True)
    assert len(found.warnings) == 1


@pytest.mark.requirement("TRU-8")
def test_no_server_of_such_a_file_may_have_more_than_is_usual() -> None:
    wide, narrow = Limits(999, queue=0, answer_mib=999, sessions=999), Limits(calls=1)

    found = restrict(make_settings(make_server("a", limits=wide), make_server("b", limits=narrow)))

    assert [server.limits for server in found.servers] == [Limits(queue=0), narrow]
    assert [warning.path for warning in found.warnings] == ["servers.a.limits"]


@pytest.mark.requirement("TRU-8")
def test_what_tightens_or_merely_counts_differently_is_taken() -> None:
    said = make_settings(
        make_server("a", trust="quarantine"),
        trust="quarantine",
        cache=CacheSettings(ttl=5.0),
        search=SearchSettings(limit=3, embeddings=EmbeddingsSettings("hash")),
        log=LogSettings(level="debug"),
    )

    found = restrict(said)

    assert found.warnings == ()
    assert (found.trust, found.servers[0].trust) == ("quarantine", "quarantine")
    assert (found.cache, found.search, found.log) == (said.cache, said.search, said.log)


@pytest.mark.requirement("TRU-3")
def test_an_approval_is_bound_to_the_overrides_wherever_they_stand() -> None:
    one, moved = (Override(("*",), description="x", origin=Origin("f", line)) for line in (1, 2))
    other = replace(one, arguments={"to": "evil"})

    def bound_to(*overrides: Override) -> str:
        [server] = restrict(make_settings("a", overrides=overrides)).servers
        return server.bound_to

    assert bound_to() == ""
    assert bound_to(one) == bound_to(moved)
    assert len({bound_to(), bound_to(one), bound_to(other), bound_to(one, other)}) == 4


class TestFinding:
    def place(self, folder: Path, home: Path) -> Location:
        return locate(environ={"XDG_CONFIG_HOME": str(home)}, cwd=folder)

    @pytest.mark.requirement("TRU-2")
    @pytest.mark.parametrize("where", ["discovery.yaml", ".discovery/discovery.yaml"])
    def test_what_lies_in_the_working_folder_was_found(self, tmp_path: Path, where: str) -> None:
        file = tmp_path / where
        file.parent.mkdir(exist_ok=True)
        file.touch()

        assert is_untrusted_origin(self.place(tmp_path, tmp_path / "home"))

    @pytest.mark.requirement("TRU-1")
    def test_what_lies_in_the_users_own_folder_was_not(self, tmp_path: Path) -> None:
        own = tmp_path / "discovery"
        own.mkdir()
        (own / "discovery.yaml").touch()

        assert not is_untrusted_origin(self.place(tmp_path / "elsewhere", tmp_path))
        assert not is_untrusted_origin(self.place(own, tmp_path))

    @pytest.mark.requirement("TRU-1")
    def test_what_is_named_was_not_nor_was_nothing(self, tmp_path: Path) -> None:
        file = tmp_path / "discovery.yaml"
        file.touch()

        assert not is_untrusted_origin(locate(file, cwd=tmp_path))
        assert not is_untrusted_origin(
            locate(environ={"DISCOVERY_CONFIG": str(file)}, cwd=tmp_path)
        )
        assert not is_untrusted_origin(Location(None))

    @pytest.mark.requirement("TRU-2")
    @pytest.mark.skipif(os.name != "posix", reason="modes mean something else there")
    def test_what_anybody_may_write_or_nobody_can_look_at_is_nobodys_word(
        self, tmp_path: Path
    ) -> None:
        file = tmp_path / "discovery.yaml"
        file.touch()
        file.chmod(0o646)

        assert is_untrusted_origin(locate(file, cwd=tmp_path))
        assert is_untrusted_origin(locate(tmp_path / "absent.yaml", cwd=tmp_path))
