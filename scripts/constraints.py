"""Write `constraints.txt`: a version of each package, for every system and every Python.

    python scripts/constraints.py [CHECKOUT]

They are those of the environments of a checkout whose tests passed, such as `.newest`; uv adds what
other systems and newer Pythons need. `constraints/NAME.txt` is for an environment of
`scripts/frameworks.py` that cannot have the same: its lines are used instead.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from frameworks import BESIDE, CLIENTS, EXTRAS, requirements
from servers import PYTHON_PROGRAMS

ROOT = Path(__file__).resolve().parent.parent
UV = str(Path(sys.executable).parent / "uv")
LEAST_PYTHON = "3.11"  # newer releases of some packages have no wheel for it
BUILDING = ["editables", "pip"]  # of no group: what installs the project itself
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def main(checkout: Path) -> None:
    frameworks = {
        checkout / ".tools" / "frameworks" / name: requirements(name)
        for name in (*EXTRAS, *CLIENTS, *BESIDE)
    }
    programs = {
        checkout / ".tools" / "servers" / name: [package]
        for name, package in PYTHON_PROGRAMS.items()
    }
    without = {*EXTRAS, "model"}  # whose wheel is built here, and has no dependencies
    extras = [f"--extra={name}" for name in _PROJECT["optional-dependencies"].keys() - without]
    project = ["pyproject.toml", "--group=dev", *extras]
    common = _resolved(BUILDING, _installed(checkout / ".venv"), *project)
    for environment, wanted in (frameworks | programs).items():
        versions = _resolved(wanted, _installed(environment) | common)
        common = versions | common
        own = dict(versions.items() - common.items())
        _write(ROOT / "constraints" / f"{environment.name}.txt", own)
    _write(ROOT / "constraints.txt", common)


def _installed(environment: Path) -> dict[str, str]:
    python = environment / "bin" / "python"
    freeze = [UV, "pip", "freeze", "--quiet", "--exclude-editable", "--python", str(python)]
    return _versions(subprocess.run(freeze, check=True, capture_output=True, text=True).stdout)


def _resolved(wanted: list[str], preferred: Mapping[str, str], *sources: str) -> dict[str, str]:
    """What requirements need, in versions that are preferred where they fit."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "constraints.txt"  # uv prefers what it has
        _write(output, preferred)
        command = [UV, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--universal"]
        command += ["--fork-strategy=fewest", f"--python-version={LEAST_PYTHON}"]
        command += [f"--no-emit-package={_PROJECT['name']}", f"--output-file={output}"]
        subprocess.run(
            [*command, *sources, "-"],
            check=True,
            cwd=ROOT,
            input="\n".join(wanted),
            stdout=sys.stderr,
            text=True,
        )
        return _versions(output.read_text("utf-8"))


def _versions(lines: str) -> dict[str, str]:
    """Versions by name, without the conditions under which uv says that they are needed."""
    pairs = (line.partition(" ;")[0].partition("==") for line in lines.splitlines())
    return {name: version for name, _, version in pairs}


def _write(file: Path, versions: Mapping[str, str]) -> None:
    if versions:
        file.parent.mkdir(exist_ok=True)
        lines = [f"{name}=={version}\n" for name, version in sorted(versions.items())]
        file.write_text("".join(lines), "utf-8")
    else:
        file.unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT)
