"""`discovery serve`: serves the meta-tools to agents over MCP."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_engine._util.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from discovery_server.app import GatewayOptions
    from discovery_server.http.guard import Endpoint
    from discovery_server.http.tls_files import Tls
    from discovery_server.tokens import Tokens

_LAST_PORT = 65_535
_HOST = lazy_pattern(r"[\w.-]+")


def _address(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[str, int] | None:
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > _LAST_PORT:
        raise click.BadParameter(
            f"{text!r} is not an address like 127.0.0.1:8080", context, parameter
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def _hosts(
    context: click.Context, parameter: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    for name in names:
        if not _HOST.fullmatch(name):
            message = f"{name!r} is not a host name without a port, like tools.example.com"
            raise click.BadParameter(message, context, parameter)
    return names


@click.command("serve")
@click.option(
    "--stdio",
    is_flag=True,
    help="Serve one client on stdin and stdout (the default). With --http both are served: HTTP by"
    " one of the gateways that share a data folder.",
)
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    callback=_address,
    help="Serve many clients over HTTP; port 0 picks a free port.",
)
@click.option(
    "--token-file", metavar="FILE", help="With --http: read bearer tokens from FILE, one a line."
)
@click.option(
    "--new-token",
    is_flag=True,
    help="With --http: replace the token that is stored in the data folder.",
)
@click.option(
    "--no-token", is_flag=True, help="With --http: require no token; on this machine only."
)
@click.option(
    "--allow-remote",
    is_flag=True,
    help="With --http: serve other machines, too; in clear text without --tls-cert.",
)
@click.option(
    "--tls-cert",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --http: serve HTTPS with this certificate (PEM, with its chain).",
)
@click.option(
    "--tls-key",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --tls-cert: its private key (PEM, without a password).",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    metavar="NAME",
    multiple=True,
    callback=_hosts,
    help="With --http: also accept this host name, as a proxy sends it; may be repeated.",
)
@click.option(
    "--record",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Record what servers list and answer in DIR, without secrets.",
)
@click.option(
    "--replay",
    metavar="DIR",
    type=click.Path(file_okay=False, exists=True),
    help="Answer from the recordings in DIR; no server is started.",
)
@click.option("--view", "view_name", metavar="NAME", help="Serve what this view shows.")
@pass_invocation
def command(
    invocation: Invocation,
    /,
    *,
    stdio: bool,
    address: tuple[str, int] | None,
    record: str | None,
    replay: str | None,
    view_name: str | None,
    **options: Any,
) -> None:
    """Serve the meta-tools to agents over MCP.

    Agents start this command themselves: `discovery connect CLIENT` adds it to the file of one.

    With --http, many clients share one gateway. Only this machine is served, unless you say
    --allow-remote; clients must use an address, the name of this machine, or an --allowed-host.
    Every request needs a bearer token: that of --token-file or $DISCOVERY_TOKEN, or one that is
    generated once and stored in the data folder. The entry for clients is printed. `discovery token
    create` makes further tokens, which can be limited.

    With --stdio and --http, each client starts its own gateway, and one of these gateways serves
    HTTP for all others. When it ends, another one takes over.

    \b
      discovery serve
      discovery serve --http 127.0.0.1:8000
    """
    if record and replay:
        raise click.UsageError("--record and --replay cannot be combined")
    if stdio and address and not address[1]:
        raise click.UsageError("beside --stdio, --http needs a port that all gateways know, not 0")
    if stdio and address and options["new_token"]:
        raise click.UsageError("--new-token goes with --http alone: gateways share the token")
    for name, value in options.items():
        if value and not address:
            option = name.removesuffix("s").replace("_", "-")
            raise click.UsageError(f"--{option} needs --http HOST:PORT")
    _unblock(invocation)
    _say_where_it_looked(invocation)
    if replay and invocation.data_dir is None:
        # Recorded lists must not replace the real ones in the data folder.
        from tempfile import TemporaryDirectory

        folder = TemporaryDirectory(prefix="discovery-replay-")
        invocation.data_dir = invocation.at_end.enter_context(folder)
    served = {"record": record, "replay": replay, "view": view_name}
    http = Http(*address, HttpOptions(**options)) if address else None
    if http and not stdio:
        serve = partial(_serve_http, invocation, http, **served)
    else:
        serve = partial(_serve_stdio, invocation, http, **served)
    invocation.interrupts.run(serve)


def _unblock(invocation: Invocation) -> None:
    """Keep writes from waiting for a reader until the command ends."""
    from discovery_server.logs import unblocked_stderr

    invocation.at_end.enter_context(unblocked_stderr())
    # Libraries print to stderr, because unread output on stdout would block the exit.
    invocation.at_end.enter_context(redirect_stdout(sys.stderr))


def _say_where_it_looked(invocation: Invocation) -> None:
    """List the searched paths that have no configuration, on stderr only."""
    from discovery_engine.config.files.location import VARIABLE, locate

    place = locate(invocation.config)
    if place.path is None:
        looked = ", ".join((f"${VARIABLE}", *place.absent))
        sys.stderr.write(
            f"note: no configuration: none at {looked}; run `discovery init --global`, or start "
            "this with `--config /absolute/path/discovery.yaml`\n"
        )


class HttpOptions(Struct, frozen=True):
    token_file: str | None
    new_token: bool
    no_token: bool
    allow_remote: bool
    allowed_hosts: tuple[str, ...]
    tls_cert: Path | None
    tls_key: Path | None

    def __post_init__(self) -> None:
        if (self.tls_cert is None) is not (self.tls_key is None):
            raise click.UsageError("--tls-cert and --tls-key go together: a certificate, its key")
        if self.no_token and (self.token_file or self.new_token):
            raise click.UsageError("--no-token cannot be combined with another token")
        if self.new_token and self.token_file:
            raise click.UsageError("--new-token replaces the token of the data folder, not yours")
        if self.new_token and os.environ.get("DISCOVERY_TOKEN"):
            raise click.UsageError("--new-token has no effect while $DISCOVERY_TOKEN is set")

    def tls(self) -> Tls | None:
        """Return the certificate that encrypts the connections; None if none was given.

        Raises:
            ConfigurationError: If a file cannot be used.
        """
        if self.tls_cert is None or self.tls_key is None:
            return None
        from discovery_server.http.tls_files import Tls, TlsFiles

        return Tls(TlsFiles(self.tls_cert, self.tls_key), datetime.now(UTC))


class Http(Struct, frozen=True):
    host: str
    port: int
    options: HttpOptions

    def endpoint(self) -> Endpoint:
        from discovery_server.http.guard import Endpoint

        return Endpoint(
            self.host,
            self.port,
            allow_remote=self.options.allow_remote,
            allowed_hosts=self.options.allowed_hosts,
            tls=self.options.tls(),
        )


def _gateway_options(invocation: Invocation, **served: str | None) -> GatewayOptions:
    from discovery_server.app import GatewayOptions

    return GatewayOptions(invocation.config, invocation.data_dir, invocation.frozen, **served)


async def _serve_stdio(invocation: Invocation, http: Http | None, **served: str | None) -> None:
    # Ctrl-C does not interrupt an import in a running loop; it takes effect afterwards.
    from discovery_server import app

    shared = None
    if http:
        endpoint = http.endpoint()
        tokens = _tokens(invocation, http.options)
        shared = app.SharedAddress(endpoint, tokens, tuple(_warnings(tokens, endpoint)))
    if sys.stdin.isatty():
        sys.stderr.write(
            "note: waiting for an MCP client on stdin; `discovery connect` makes your clients start"
            " this, Ctrl-C ends it\n"
        )
    await app.serve_stdio(
        _gateway_options(invocation, **served),
        first=invocation.first,
        early=invocation.early,
        shared=shared,
    )


async def _serve_http(invocation: Invocation, http: Http, **served: str | None) -> None:
    from discovery_server import app
    from discovery_server.http.guard import require_allowed

    endpoint, options = http.endpoint(), http.options
    require_allowed(endpoint, has_token=not options.no_token)  # before a token is made for it
    tokens = _tokens(invocation, options)
    await app.serve_http(
        _gateway_options(invocation, **served),
        endpoint,
        tokens=tokens,
        on_listening=partial(_say_address, tokens=tokens, endpoint=endpoint),
    )


def _tokens(invocation: Invocation, options: HttpOptions) -> Tokens | None:
    from discovery_server.tokens import find_tokens

    if options.no_token:
        return None
    return find_tokens(
        os.environ, data_dir=invocation.data_dir, file=options.token_file, renew=options.new_token
    )


def _say_address(address: str, link: str, *, tokens: Tokens | None, endpoint: Endpoint) -> None:
    """Print the address and what clients need; not to the log, which must hold no token."""
    lines = [f"serving MCP at {address}", *_page_lines(link)]
    lines += [f"warning: {text}" for text in _warnings(tokens, endpoint)]
    if tokens is not None:
        lines += [f"note: {notice}" for notice in tokens.notices]
        lines += ["clients connect with this entry:", _client_entry(address, tokens)]
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


def _page_lines(link: str) -> list[str]:
    """Return lines with the address of the page, or on how to get it if modules are missing."""
    from discovery_server.page.page_app import load_files

    if not link:
        return []
    if not load_files().is_whole:
        missing = "the modules of other projects that the page uses are missing"
        return [f"note: only the API, no page: {missing}; `make servers` brings them with npm"]
    return [f"page at {link} (valid once; `discovery token link` makes more)"]


def _warnings(tokens: Tokens | None, endpoint: Endpoint) -> Iterator[str]:
    if endpoint.tls is not None:
        yield from endpoint.tls.certificate.notices
    elif endpoint.allow_remote:
        yield (
            "there is no TLS: the token and all calls are sent to other machines in clear text;"
            " use --tls-cert, or put a TLS proxy in front, and name it with --allowed-host"
        )
    if tokens is None:
        yield (
            "no token is required: every user and every program of this machine can call every"
            " tool; the page and the API are not served without one"
        )


def _client_entry(address: str, tokens: Tokens) -> str:
    headers = {"Authorization": f"Bearer {tokens.shown}"}
    entry = {"type": "http", "url": address, "headers": headers}
    return json.dumps({"mcpServers": {"discovery": entry}}, ensure_ascii=False)
