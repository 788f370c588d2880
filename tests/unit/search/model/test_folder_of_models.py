"""The folder of models under kills, damage, and two commands at once."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from discovery_engine.search.embedders.opening import (
    installed_model,
    model_folder,
    models_folder,
    record_file,
)
from discovery_engine.search.model import ModelError, install_model, remove_model
from discovery_engine.search.model.installation import folder_lock
from tests.unit.search.model.test_installation import adapter, base_in, recipe

_KILLED = """
import os, shutil, sys
from pathlib import Path
from discovery_engine.search.embedders.opening import installed_model, model_folder, models_folder
from discovery_engine.search.model import install_model
from tests.unit.search.model.test_installation import adapter, recipe

base, before, data, size = *map(Path, sys.argv[1:4]), float(sys.argv[4])
wanted = recipe(base, adapter(size))
changes = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.chmod", "os.truncate"}


def changes_files(event, args):
    return event in changes or (event == "open" and (args[2] or 0) & os.O_CREAT)


def killed_before(number):
    counted = 0

    def hook(event, args):
        nonlocal counted
        if changes_files(event, args):
            counted += 1
            if counted > number:
                os._exit(9)

    sys.addaudithook(hook)
    install_model(data, base=base, recipe=wanted)
    os._exit(0)


for number in range(1000):
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(before, data)
    if not (child := os.fork()):
        killed_before(number)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9), code
    model = installed_model(data)
    assert model is not None, f"no model after a kill at change {number}"
    content = (model_folder(data, model) / "model.onnx").read_bytes()
    assert len(content) > 100
    assert install_model(data, base=base, recipe=wanted)
    assert len(list(models_folder(data).iterdir())) == 2, "something is left of the killed one"
    if code == 0:
        break
print(number)
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return base_in(tmp_path / "base")


@pytest.mark.thorough
@pytest.mark.requirement("EMB-32")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot fork")
@pytest.mark.parametrize("size", [0.1, 0.2], ids=["the same model", "another model"])
def test_a_kill_at_any_moment_of_a_reinstallation_leaves_a_model(
    base: Path, tmp_path: Path, size: float
) -> None:
    install_model(tmp_path / "before", base=base, recipe=recipe(base))

    command = [sys.executable, "-c", _KILLED, str(base), str(tmp_path / "before")]
    done = subprocess.run(
        [*command, str(tmp_path / "data"), str(size)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5, "kills were placed between the changes"


def hold(folder: Path, is_held: Event, may_end: Event) -> None:
    with folder_lock(folder):
        (folder / ".new-other").mkdir()
        is_held.set()
        may_end.wait(60)


@pytest.mark.requirement("EMB-32")
def test_a_second_installation_or_removal_leaves_the_work_of_the_first(
    base: Path, tmp_path: Path
) -> None:
    model = install_model(tmp_path, base=base, recipe=recipe(base))
    spawn = multiprocessing.get_context("spawn")
    is_held, may_end = spawn.Event(), spawn.Event()
    other = spawn.Process(target=hold, args=(models_folder(tmp_path), is_held, may_end))
    other.start()
    try:
        assert is_held.wait(60)
        for command in (
            lambda: install_model(tmp_path, base=base, recipe=recipe(base, adapter(0.2))),
            lambda: remove_model(tmp_path),
        ):
            with pytest.raises(ModelError, match="another process") as caught:
                command()
            assert "repeat" in caught.value.hint
        assert (models_folder(tmp_path) / ".new-other").is_dir()
        assert installed_model(tmp_path) == model
    finally:
        may_end.set()
        other.join(60)

    second = install_model(tmp_path, base=base, recipe=recipe(base, adapter(0.2)))
    kept = {path.name for path in models_folder(tmp_path).iterdir()}
    assert kept == {second.folder, record_file(tmp_path).name}


@pytest.mark.requirement("EMB-32")
@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("is_cut", [True, False])
def test_a_damaged_model_is_repaired(base: Path, tmp_path: Path, file: str, is_cut: bool) -> None:
    model = install_model(tmp_path, base=base, recipe=recipe(base))
    damaged = model_folder(tmp_path, model) / file
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1] if is_cut else bytes(len(whole)))
    assert installed_model(tmp_path) == (None if is_cut else model)

    assert install_model(tmp_path, base=base, recipe=recipe(base)) == model
    assert damaged.read_bytes() == whole
