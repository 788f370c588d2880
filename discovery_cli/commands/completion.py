"""`discovery completion`: a script that completes commands, servers and tools in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation

_INSTALL = {
    "bash": 'eval "$(discovery completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(discovery completion zsh)"  # in ~/.zshrc',
    "fish": "discovery completion fish > ~/.config/fish/completions/discovery.fish",
}
_BASH_END = "    return 0\n"
_NO_SPACE = "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
_VARIABLE = "_DISCOVERY_COMPLETE"  # where click looks for it


@click.command("completion")
@click.argument("shell", metavar="SHELL", type=click.Choice(list(_INSTALL)))
@click.pass_context
@pass_invocation
def command(invocation: Invocation, context: click.Context, shell: str) -> None:
    """Print a completion script for bash, zsh or fish.

    \b
      bash: eval "$(discovery completion bash)"  # in ~/.bashrc
      zsh:  eval "$(discovery completion zsh)"  # in ~/.zshrc
      fish: discovery completion fish > ~/.config/fish/completions/discovery.fish
    """
    output = invocation.output
    complete = get_completion_class(shell)
    if complete is None:
        raise AssertionError(f"click does not support {shell}")
    script = complete(context.find_root().command, {}, "discovery", _VARIABLE).source()
    if shell == "bash":  # the value of an argument follows at once
        script = script.replace(_BASH_END, f"{_NO_SPACE}{_BASH_END}")
    if output.as_json:
        output.answer({"shell": shell, "script": script, "install": _INSTALL[shell]})
    else:
        output.write(script + "\n")
        if output.is_terminal:
            output.say(f"to install: {_INSTALL[shell]}")
