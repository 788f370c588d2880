"""`discovery login`: the tokens of a remote server, obtained with a browser or revoked."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode, exit_code_of_failure
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.output import json_text
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import one_line

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Failure
    from discovery_engine.engine import Engine
    from discovery_engine.engine.owner.server_logins import LoginReport, LogoutReport

_USUAL_TIMEOUT = 300.0  # seconds
_LISTING = 5.0  # seconds
_DESKTOPS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""Linux variables; without any of them `webbrowser` may start a browser in the terminal."""


@click.command("login")
@click.argument("server", shell_complete=complete_server)
@click.option("--revoke", is_flag=True, help="Revoke and delete the tokens of SERVER.")
@click.option(
    "--scope",
    "scopes",
    metavar="SCOPE",
    multiple=True,
    help="Also request this scope; may be repeated.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address, for you to open.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=_USUAL_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the login.",
)
@pass_invocation
def command(
    invocation: Invocation,
    server: str,
    *,
    revoke: bool,
    scopes: tuple[str, ...],
    no_browser: bool,
    timeout: float,
) -> ExitCode:
    """Log in to a remote server, and store its tokens encrypted.

    The address to open is printed, and opened in your browser if there is one. The browser then
    returns to a port of this machine; from a machine without a browser, forward that port, or use
    `oauth: {grant: client_credentials}`. Running gateways use the new login at once. Exits with 6
    if the login fails.

    --revoke revokes and deletes the tokens. If the server cannot be reached, they are only deleted,
    and a copy of them stays valid until it expires.

    \b
      discovery login linear
      discovery login linear --revoke
    """
    if revoke:
        return _revoke(invocation, server)
    output = invocation.output
    opens_browser = not no_browser and _may_open_browser(invocation)
    show = _show_json if output.as_json else partial(_show, opens_browser=opens_browser)

    async def work(engine: Engine) -> tuple[LoginReport, Failure | None, int]:
        report = await engine.logins.log_in(server, show, scopes=scopes, timeout=timeout)
        refreshed = await engine.refresh([report.server])
        failure = next(
            (failure for name, failure in refreshed.servers if name == report.server), None
        )
        tools = next(s for s in engine.view.servers() if s.name == report.server).tool_count
        return report, failure, tools

    report, failure, tools = invocation.run(work)
    if output.as_json:
        output.answer(
            _form(report, failure, tools) | {"others_have_their_own": invocation.shares_registry}
        )
    else:
        output.say(f"logged in to {report.server} at {one_line(report.issuer)}")
        output.say(_duration(report, invocation.clock()))
        invocation.say_of_this_machine("the login is stored")
        if failure is None:
            output.say(f"{report.server}: {counted(tools, 'tool')}")
        else:
            output.say(f"but {one_line(failure.message)}")
            output.say(f"hint: {one_line(failure.detail or failure.hint)}")
    return exit_code_of_failure(failure.code) if failure else ExitCode.OK


def _revoke(invocation: Invocation, server: str) -> ExitCode:
    async def work(engine: Engine) -> LogoutReport:
        report = await engine.logins.log_out(server)
        if report.deleted and report.server in engine.view.connectable:
            await engine.refresh([report.server], max_wait=_LISTING)  # so that lists show it
        return report

    report = invocation.run(work)
    output = invocation.output
    if output.as_json:
        output.answer(
            {
                "server": report.server,
                "deleted": report.deleted,
                "revoked": report.revoked,
                "failures": list(report.failures),
            }
        )
        return ExitCode.OK
    if not report.deleted:
        output.say(f"there was no login to {report.server}")
    else:
        revoked = "revoked and deleted" if report.revoked else "deleted"
        output.say(f"logged out of {report.server}: its tokens are {revoked}")
    for failure in report.failures:
        output.say(f"note: not revoked: {failure}")
    return ExitCode.OK


def _show_json(address: str) -> None:
    # To stderr, as stdout has only the answer; with --json each line of stderr is JSON, too.
    sys.stderr.write(json_text({"authorization_url": address}) + "\n")
    sys.stderr.flush()


def _show(address: str, *, opens_browser: bool) -> None:
    sys.stderr.write(f"open this address to log in:\n  {one_line(address)}\n")
    if opens_browser:
        import webbrowser

        webbrowser.open(address)
    sys.stderr.write("waiting for the browser (Ctrl-C ends it)\n")
    sys.stderr.flush()


def _may_open_browser(invocation: Invocation) -> bool:
    """Return whether a person sees the terminal, and a browser would not take it over."""
    is_terminal = sys.stderr.isatty() and sys.stdin.isatty()
    has_desktop = sys.platform in ("win32", "darwin") or any(map(os.environ.get, _DESKTOPS))
    return is_terminal and has_desktop and not invocation.as_json


def _duration(report: LoginReport, now: float) -> str:
    from discovery_engine._util.quantities import ago

    if report.is_refreshable:
        return "its token is refreshed by itself"
    if report.expires_at is None:
        return "its token has no known end"
    return f"its token expires in {ago(max(0.0, report.expires_at - now))}; then log in again"


def _form(report: LoginReport, failure: Failure | None, tools: int) -> JSONObject:
    return {
        "server": report.server,
        "issuer": report.issuer,
        "scopes": list(report.scopes),
        "expires_at": report.expires_at,
        "refreshable": report.is_refreshable,
        "tool_count": tools,
        "code": failure.code if failure else None,
        "message": failure.message if failure else "",
        "hint": failure.hint if failure else "",
        "detail": failure.detail if failure else "",
    }
