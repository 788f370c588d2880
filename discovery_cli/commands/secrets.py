"""`discovery secrets`: the values of `${secret:NAME}`, stored encrypted in the data folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from discovery_cli.command_group import Group
from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Cell
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import named
from discovery_engine.errors import InvalidSecretError, SecretStoreError
from discovery_engine.secrets.references import is_secret_name

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.secret_store.owner_secrets import OwnerSecrets

_CLASSES = ((8, "fewer than 8"), (32, "8 to 31"), (128, "32 to 127"))
_UNREADABLE = "cannot be decrypted"
_KEPT = {
    "passphrase": "derived from the passphrase, which is kept nowhere",
    "keyring": "kept in the system's keyring",
    "file": "kept in secrets.key of the data folder",
}
_REFERENCED = "referenced, not stored"


@click.group("secrets", cls=Group)
def command() -> None:
    """Store, show and delete the secrets of servers."""


@command.command("set")
@click.argument("name")
@pass_invocation
def set_(invocation: Invocation, name: str) -> None:
    """Store a secret for `${secret:NAME}`, encrypted.

    The value is asked for in the terminal, and not shown; without a terminal it is read from stdin.
    SERVER/NAME is a secret of one server: no other entry may refer to it. A server that waits for
    the secret is listed at once by a running gateway; one that runs gets a new value when it is
    started or connected the next time.

    \b
      discovery secrets set GITHUB_TOKEN
      pass show jira | discovery secrets set jira/TOKEN
    """  # noqa: D301 - click wants the character itself
    if not is_secret_name(name):
        raise InvalidSecretError.name()
    secrets = _secrets(invocation)
    is_new = name not in secrets.names()
    secrets.set(name, _value(name))
    output = invocation.output
    if output.as_json:
        output.answer({"name": name, "is_new": is_new})
        return
    output.say(f"{name} is {'stored' if is_new else 'replaced'}; write ${{secret:{name}}} for it")


@command.command("list")
@pass_invocation
def list_(invocation: Invocation) -> ExitCode:
    """Show the names of secrets, the servers that refer to them, and those that are missing.

    The exit code is 6 if one cannot be decrypted.
    """
    secrets, servers = _secrets(invocation), _references(invocation)
    stored = {name: _length(secrets, name) for name in secrets.names()}
    code = ExitCode.SECRET_MISSING if None in stored.values() else ExitCode.OK
    missing = [name for name in servers if name not in stored]
    output = invocation.output
    if output.as_json:
        shown: list[JSONObject] = [
            {"name": name, "length": length, "servers": list(servers.get(name, ()))}
            for name, length in stored.items()
        ]
        output.answer(
            {
                "secrets": shown,
                "missing": [{"name": name, "servers": servers[name]} for name in missing],
            }
        )
        return code
    rows = [
        (length is not None, name, f"••••  {length} characters" if length else _UNREADABLE)
        for name, length in stored.items()
    ]
    rows += [(False, name, _REFERENCED) for name in missing]
    output.table(
        [
            [output.mark(good=good), Cell(name, "strong"), what, ", ".join(servers.get(name, ()))]
            for good, name, what in rows
        ]
    )
    output.say(counted(len(stored), "secret"))
    if code is not ExitCode.OK:
        output.say("hint: discovery doctor")
    elif missing:
        output.say(f"hint: discovery secrets set {missing[0]}")
    return code


@command.command("delete")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@pass_invocation
def delete(invocation: Invocation, names: tuple[str, ...]) -> ExitCode:
    """Delete secrets; a server that needs one can then not be started any more.

    The exit code is 2 if a name is not stored; the others are deleted.
    """
    secrets, output = _secrets(invocation), invocation.output
    deleted = [name for name in dict.fromkeys(names) if secrets.delete(name)]
    unknown = [name for name in dict.fromkeys(names) if name not in deleted]
    if output.as_json:
        output.answer({"deleted": deleted, "unknown": unknown})
    for name in deleted:
        output.say(f"{name} is deleted")
    for name in unknown:
        output.say(f"no secret {named(name)} is stored; `discovery secrets list` shows them")
    return ExitCode.USAGE if unknown else ExitCode.OK


@command.command("rotate-key")
@pass_invocation
def rotate_key(invocation: Invocation) -> None:
    """Encrypt all secrets and logins with a new key, and delete the old one.

    The new key is derived from $DISCOVERY_SECRETS_NEW_PASSPHRASE if that is set, which takes the
    place of $DISCOVERY_SECRETS_PASSPHRASE; else from that, with a new salt. Without a passphrase it
    is kept in the system's keyring, or in a file beside the secrets if there is none.
    """
    from discovery_engine.secret_store.keys import NEXT_VARIABLE, VARIABLE

    place, output = _secrets(invocation).rotate_key(), invocation.output
    if output.as_json:
        output.answer({"key": place})
    elif place is None:
        output.say("no secret is stored, so there is no key")
    else:
        output.say(f"everything is encrypted with a new key, {_KEPT[place]}")
        if os.environ.get(NEXT_VARIABLE):
            output.say(f"from now on, set {VARIABLE} to the new passphrase")


def _secrets(invocation: Invocation) -> OwnerSecrets:
    from discovery_engine.runtime.restore import registry_path
    from discovery_engine.secret_store.encrypted_store import EncryptedStore
    from discovery_engine.secret_store.owner_secrets import OwnerSecrets

    folder = registry_path(invocation.data_dir, os.environ).parent
    return OwnerSecrets(EncryptedStore(folder, os.environ))


def _references(invocation: Invocation) -> Mapping[str, Sequence[str]]:
    """The servers that refer to a secret, by its name, in the order of the configuration."""
    from discovery_engine.config.loading.loader import resolve_settings
    from discovery_engine.upstream.connection import stored_secrets

    settings = resolve_settings(invocation.config, os.environ, frozen=invocation.frozen)
    servers: dict[str, list[str]] = {}
    for server in settings.servers:
        for name in stored_secrets(server):
            servers.setdefault(name, []).append(server.name)
    return servers


def _value(name: str) -> str:
    """From the terminal, where it is not shown, or from stdin, without one newline at its end."""
    if sys.stdin.isatty():
        value: str = click.prompt(
            f"value of {name}", hide_input=True, err=True, default="", show_default=False
        )
        return value
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")


def _length(secrets: OwnerSecrets, name: str) -> str | None:
    """A class, which gives less away than the length itself; None if it cannot be decrypted."""
    try:
        value = secrets.get(name) or ""
    except SecretStoreError:
        return None
    return next((text for limit, text in _CLASSES if len(value) < limit), "128 or more")
