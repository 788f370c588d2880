"""`discovery token`: the tokens that clients of `discovery serve --http` use."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from discovery_cli.command_group import Group
from discovery_cli.invocation import Invocation
from discovery_cli.options import duration_or_date, pass_invocation
from discovery_cli.output import Cell
from discovery_engine._util.quantities import ago, counted
from discovery_engine._util.suggestions import nearest

if TYPE_CHECKING:
    from discovery_server.access_token import AccessToken, TokenScope
    from discovery_server.access_tokens import AccessTokens

_SHARED = "all gateways"


@click.group("token", cls=Group)
def command() -> None:
    """Create, list and revoke tokens for clients over HTTP, and sign browsers in.

    \b
      discovery token create --name laptop
      discovery token revoke laptop
      discovery token link
    """


@command.command("create", context_settings={"allow_extra_args": True})
@click.option("--view", "view_name", metavar="NAME", help="Limit the token to this view.")
@click.option(
    "--expires",
    metavar="WHEN",
    callback=duration_or_date,
    help="When it expires: 90m, 12h, 30d, 4w, or a date (UTC); by default, never.",
)
@click.option("--name", default="", metavar="NAME", help="A name for the token.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(["read", "call", "admin"]),
    multiple=True,
    help="What the token allows; may be repeated. `admin` allows all that you may do, over the API."
    "  [default: read, call]",
)
@click.option(
    "--server",
    "servers",
    metavar="PATTERN",
    multiple=True,
    help="Limit the token to servers that match PATTERN; may be repeated.",
)
@click.option(
    "--tool",
    "tools",
    metavar="PATTERN",
    multiple=True,
    help="Limit the token to tools that match PATTERN, without resources and prompts; repeatable.",
)
@click.option(
    "--team",
    "teams",
    metavar="NAME",
    multiple=True,
    help="Also show what is reserved for this team; may be repeated.",
)
@click.option("--user", "user", metavar="NAME", help="Also show what is reserved for this user.")
@pass_invocation
def create(  # noqa: PLR0913 - one for each option
    invocation: Invocation,
    *,
    view_name: str | None,
    expires: float | datetime | None,
    name: str,
    scopes: tuple[TokenScope, ...],
    servers: tuple[str, ...],
    tools: tuple[str, ...],
    teams: tuple[str, ...],
    user: str | None,
) -> None:
    """Create a token for a client of `discovery serve --http`.

    The token is printed once: only a digest of it is stored. It is valid for every gateway with
    this data folder, or, if the registry is a database, for every gateway with that database and
    the same name in its configuration. A token can be limited to a view, to servers and to tools;
    everything else is unknown to its client. What the configuration reserves for teams and users is
    shown only to tokens with --team or --user.

    \b
      discovery token create --view readers --expires 30d --name ci
      discovery token create --server 'git*' --tool 'github:list_*' --tool '!*delete*'
      discovery token create --team payments --user anna --name anna
    """
    if extra := click.get_current_context().args:
        text = f"a token takes no argument {extra[0]!r}: give its name as"
        raise click.UsageError(f"{text} `--name {shlex.quote(extra[0])}`")
    if view_name is not None:
        _require_view(invocation, view_name)
    lifetime = _lifetime(expires, invocation.clock())
    from discovery_server.access_token import checked_limits, checked_principals, token_form

    allowed = {"scopes": frozenset(scopes)} if scopes else {}
    limits, principals = checked_limits(servers, tools), checked_principals(teams, user)
    tokens = _tokens(invocation)
    value, token = tokens.create(
        name=name,
        view=view_name,
        lifetime=lifetime,
        limits=limits,
        principals=principals,
        **allowed,
    )
    output = invocation.output
    if output.as_json:
        form = token_form(token, invocation.clock())
        output.answer({"token": value, **form, "is_shared": tokens.shared is not None})
        return
    output.line(value)
    what = _shown(token) or "all that is served"
    if scopes:
        what += f" (it may {', '.join(sorted(token.scopes))})"
    output.say(f"token {token.id} is for {what}, {_validity(token, invocation.clock())}")
    if tokens.shared:
        output.say("every gateway of this registry takes it within a second")
    output.say("it is not shown again; `discovery token revoke` ends it")
    if principals:
        note_unnamed(invocation, principals)


@command.command("list")
@pass_invocation
def list_(invocation: Invocation) -> None:
    """List tokens, without their values.

    \b
      discovery token list
    """
    from discovery_server.access_token import token_form

    output, now, tokens = invocation.output, invocation.clock(), _tokens(invocation)
    entries = [(token, "this machine") for token in tokens.all()]
    if tokens.shared:
        entries += [(token, _SHARED) for token in tokens.shared.all()]
    if output.as_json:
        forms = [
            token_form(token, now) | {"is_shared": place == _SHARED} for token, place in entries
        ]
        output.answer({"tokens": forms})
        return
    output.table(
        [
            [
                output.mark(good=not (token.is_damaged or token.is_expired(now))),
                Cell(token.id, "strong"),
                token.name,
                _shown(token) or ("nothing" if token.is_damaged else "all"),
                "" if token.is_damaged else f"made {ago(now - token.created_at)} ago",
                _validity(token, now),
                place if tokens.shared else "",
            ]
            for token, place in entries
        ]
    )
    output.say(counted(len(entries), "token"))
    if tokens.shared and (others := tokens.shared.names_elsewhere()):
        output.say(
            f"the registry has tokens of {', '.join(map(repr, others))}: if this configuration had"
            " that name (or, before it had one, that path), they are valid again once it has it;"
            " otherwise make new ones"
        )


def _token_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    names = [token.name for token in _tokens(context.ensure_object(Invocation)).all()]
    return [name for name in names if name.startswith(incomplete)]


@command.command("revoke")
@click.argument(
    "tokens", metavar="ID|NAME...", nargs=-1, required=True, shell_complete=_token_names
)
@pass_invocation
def revoke(invocation: Invocation, tokens: tuple[str, ...]) -> None:
    """Revoke tokens, by the ids or names that `discovery token list` shows.

    Gateways refuse the next request with such a token, and end its sessions and streams within
    seconds.

    \b
      discovery token revoke laptop
    """
    from discovery_server.access_token import token_form

    store, output = _tokens(invocation), invocation.output
    ended = store.revoke(*tokens)
    if output.as_json:
        output.answer({"revoked": [token_form(token, invocation.clock()) for token in ended]})
        return
    for token in ended:
        output.say(f"token {token.id}{f' ({token.name})' if token.name else ''} is revoked")


@command.command("link")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The file that `discovery serve` was started with, if it was.",
)
@pass_invocation
def link(invocation: Invocation, token_file: str | None) -> None:
    """Print an address that opens the page once, as its owner.

    It is of the gateway that `discovery serve --http` started last with this data folder, and valid
    for twelve hours. The browser that opens it stays signed in, also when the gateway is restarted.

    \b
      discovery token link
    """
    from discovery_engine.engine.restore import registry_path
    from discovery_engine.errors import ConfigurationError
    from discovery_server.http.browser_sessions import ADDRESS, FOLDER, BrowserSessions
    from discovery_server.http.users import Users
    from discovery_server.tokens import find_tokens

    folder = registry_path(invocation.data_dir, os.environ).with_name(FOLDER)
    if not (folder / ADDRESS).exists():
        message = "no gateway with a page was started with it"
        hint = "`discovery serve --http 127.0.0.1:8000` starts one, and prints such an address"
        raise ConfigurationError.of_file("PAGE_NOT_SERVED", folder.parent, message, hint)
    tokens = find_tokens(os.environ, data_dir=invocation.data_dir, file=token_file)
    address = BrowserSessions(folder, Users(tokens)).new_link()
    if invocation.output.as_json:
        invocation.output.answer({"link": address})
        return
    invocation.output.line(address)


def _tokens(invocation: Invocation) -> AccessTokens:
    from discovery_engine.config.loading.loader import resolve_settings
    from discovery_engine.engine.restore import registry_path
    from discovery_engine.engine.shared_store import gateway_database
    from discovery_engine.errors import ConfigurationError
    from discovery_server.access_tokens import AccessTokens
    from discovery_server.stored_tokens import SharedTokens

    path, settings, shared = registry_path(invocation.data_dir, os.environ), None, None
    try:
        settings = resolve_settings(invocation.config, os.environ, frozen=invocation.frozen)
    except ConfigurationError:  # tokens can be revoked even so, and other commands report it
        note = "the configuration has errors, so this is about the tokens of this machine alone"
        invocation.output.say(note)
    if settings and (database := gateway_database(settings, path, os.environ)):
        invocation.at_end.callback(database.close)
        shared = SharedTokens.of_settings(settings, database.gateways, path.parent)
    return AccessTokens.of_data_folder(invocation.data_dir, os.environ, shared=shared)


def _require_view(invocation: Invocation, name: str) -> None:
    from discovery_engine.config.loading.loader import resolve_settings
    from discovery_engine.view.scope import named_scope

    named_scope(resolve_settings(invocation.config, os.environ, frozen=invocation.frozen), name)


def _lifetime(expires: float | datetime | None, now: float) -> float | None:
    if not isinstance(expires, datetime):
        return expires
    if (seconds := expires.timestamp() - now) <= 0:
        raise click.UsageError(f"--expires: {expires.isoformat()} is in the past")
    return seconds


def _shown(token: AccessToken) -> str:
    """Return the limits of what a token shows; empty without a limit."""
    limits = token.limits
    parts = [f"view {token.view}"] if token.view else []
    for kind, patterns in (("servers", limits.servers), ("tools", limits.tools)):
        if patterns:
            parts.append(f"{kind} {', '.join(patterns)}")
    if token.principals:
        parts.append(f"what {', '.join(token.principals)} may see")
    return "; ".join(parts)


def _validity(token: AccessToken, now: float) -> str:
    if token.is_damaged:
        return f"damaged; `discovery token revoke {token.id}` removes it"
    if token.expires_at is None:
        return "valid until it is revoked"
    date = datetime.fromtimestamp(token.expires_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"expired on {date}" if token.is_expired(now) else f"valid until {date}"


def note_unnamed(invocation: Invocation, principals: Sequence[str]) -> None:
    """Print the teams and users for whom nothing is reserved: they may be misspelt."""
    from discovery_engine.config.loading.loader import resolve_settings
    from discovery_engine.errors import ConfigurationError

    try:
        settings = resolve_settings(invocation.config, os.environ, frozen=invocation.frozen)
    except ConfigurationError:  # the command goes on, and other commands report it
        return
    for principal in principals:
        if principal not in settings.principals:
            meant = nearest(principal, sorted(settings.principals))[:1]
            guess = f"; did you mean {meant[0]}?" if meant else ""
            invocation.output.say(f"no `visibleTo` of the configuration names {principal}{guess}")
