"""`discovery logout`: a login is revoked and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_server, pass_invocation

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.owner.server_logins import LogoutReport

_LISTING = 5.0  # seconds


@click.command("logout")
@click.argument("server", shell_complete=complete_server)
@pass_invocation
def command(invocation: Invocation, server: str) -> ExitCode:
    """Revoke the tokens of a server where that is possible, and delete them.

    Tokens that cannot be revoked are deleted all the same; stderr says why, and until they expire
    who has a copy can use them.
    """

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
