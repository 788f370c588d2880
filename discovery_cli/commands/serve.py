"""`discovery serve`: the five meta-tools for an agent, over MCP."""

from __future__ import annotations

import re
import sys
from functools import partial

import click

from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation

_LAST_PORT = 65_535
_HOST = re.compile(r"[\w.-]+")


def _address(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[str, int] | None:
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > _LAST_PORT:
        raise click.BadParameter(f"{text!r} is no address like 127.0.0.1:8080", context, parameter)
    return host.strip("[]") or "127.0.0.1", int(port)


def _hosts(
    context: click.Context, parameter: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    for name in names:
        if not _HOST.fullmatch(name):
            message = f"{name!r} is no host name like tools.example.com, without a port"
            raise click.BadParameter(message, context, parameter)
    return names


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
@click.option(
    "--allowed-host",
    "allowed_hosts",
    metavar="NAME",
    multiple=True,
    callback=_hosts,
    help="With --http: also answer to this host name, as a proxy sends it; may be repeated.",
)
@pass_invocation
def command(
    invocation: Invocation,
    *,
    stdio: bool,
    address: tuple[str, int] | None,
    allow_remote: bool,
    allowed_hosts: tuple[str, ...],
) -> None:
    """Serve the five meta-tools to an agent over MCP.

    An agent starts this itself; put it into its configuration as the command `discovery` with the
    argument `serve`. Over HTTP only this machine is served, unless others are allowed; they must
    call it by an address, by the machine's own name, or by an --allowed-host.
    """
    if stdio and address:
        raise click.UsageError("either --stdio or --http, not both")
    for option, value in (("--allow-remote", allow_remote), ("--allowed-host", allowed_hosts)):
        if value and not address:
            raise click.UsageError(f"{option} needs --http HOST:PORT")
    serve = partial(_serve, allow_remote=allow_remote, allowed_hosts=allowed_hosts)
    invocation.interrupts.run(partial(serve, invocation, address))


async def _serve(
    invocation: Invocation,
    address: tuple[str, int] | None,
    *,
    allow_remote: bool,
    allowed_hosts: tuple[str, ...],
) -> None:
    # What is loaded in a loop is loaded whole: a press of Ctrl-C is obeyed after it.
    from discovery_server import app

    config, data_dir, frozen = invocation.config, invocation.data_dir, invocation.frozen
    if address is None:
        if sys.stdin.isatty():
            sys.stderr.write("note: it waits for an agent to speak MCP on stdin; Ctrl-C ends it\n")
        await app.serve_stdio(config, data_dir=data_dir, frozen=frozen)
        return
    from discovery_server.guard import Endpoint

    say = partial(_say_address, is_open=allow_remote)
    endpoint = Endpoint(*address, allow_remote=allow_remote, allowed_hosts=allowed_hosts)
    await app.serve_http(config, endpoint, on_listening=say, data_dir=data_dir, frozen=frozen)


def _say_address(address: str, *, is_open: bool) -> None:
    sys.stderr.write(f"serving MCP at {address}\n")
    if is_open:
        sys.stderr.write(
            "note: whoever reaches it, by a name or an address of this machine, can call every"
            " tool; no login is asked for\n"
        )
    sys.stderr.flush()
