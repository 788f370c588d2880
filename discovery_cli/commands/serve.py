"""`discovery serve`: the five meta-tools for an agent, over MCP."""

from __future__ import annotations

import sys
from functools import partial

import click

from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation

_LAST_PORT = 65_535


def _address(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[str, int] | None:
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > _LAST_PORT:
        raise click.BadParameter(f"{text!r} is no address like 127.0.0.1:8080", context, parameter)
    return host.strip("[]") or "127.0.0.1", int(port)


@click.command("serve")
@click.option("--stdio", is_flag=True, help="Serve one client on stdin and stdout (the default).")
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    callback=_address,
    help="Serve many clients over streamable HTTP; port 0 takes a free one.",
)
@click.option(
    "--allow-remote",
    is_flag=True,
    help="With --http: serve other machines, too. Nobody is asked for a login.",
)
@pass_invocation
def command(
    invocation: Invocation, *, stdio: bool, address: tuple[str, int] | None, allow_remote: bool
) -> None:
    """Serve the five meta-tools to an agent over MCP.

    An agent starts this itself; put it into its configuration as the command `discovery` with the
    argument `serve`. Over HTTP only this machine is served, unless others are allowed.
    """
    if stdio and address:
        raise click.UsageError("either --stdio or --http, not both")
    if allow_remote and not address:
        raise click.UsageError("--allow-remote needs --http HOST:PORT")
    invocation.interrupts.run(partial(_serve, invocation, address, allow_remote=allow_remote))


async def _serve(
    invocation: Invocation, address: tuple[str, int] | None, *, allow_remote: bool
) -> None:
    # What is loaded in a loop is loaded whole: a press of Ctrl-C is obeyed after it.
    from discovery_server import app

    config, data_dir, frozen = invocation.config, invocation.data_dir, invocation.frozen
    if address is None:
        await app.serve_stdio(config, data_dir=data_dir, frozen=frozen)
        return
    host, port = address
    await app.serve_http(
        config,
        host=host,
        port=port,
        allow_remote=allow_remote,
        on_listening=partial(_say_address, is_open=allow_remote),
        data_dir=data_dir,
        frozen=frozen,
    )


def _say_address(address: str, *, is_open: bool) -> None:
    sys.stderr.write(f"serving MCP at {address}\n")
    if is_open:
        sys.stderr.write("note: whoever reaches it can call every tool; no login is asked for\n")
    sys.stderr.flush()
