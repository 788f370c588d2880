"""`discovery secrets`: the values of `${secret:NAME}`, stored encrypted in the data folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from discovery_cli.command_group import Group
from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation, owner_secrets
from discovery_cli.options import pass_invocation
from discovery_cli.output import Cell
from discovery_cli.terminal_input import may_ask, typed_value
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import named
from discovery_engine.errors import ConfigurationError, InvalidSecretError, SecretStoreError
from discovery_engine.secrets.references import is_secret_name
from discovery_engine.secrets.stored_values import length_class

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.secrets.keys import KeyPlace
    from discovery_engine.secrets.owner_secrets import OwnerSecrets

_UNREADABLE = "cannot be decrypted"
_NEW_KEY_LOCATIONS = {
    "passphrase": "derived from the passphrase or key of the environment, and kept nowhere",
    "keyring": "kept in the system's keyring",
    "file": "kept in secrets.key of the data folder",
}
_REFERENCED = "referenced, not stored"


@click.group("secrets", cls=Group)
def command() -> None:
    """Store, list and remove the secrets of servers.

    \b
      discovery secrets set
      discovery secrets list
    """


@command.command("set")
@click.argument("name", required=False)
@pass_invocation
def set_(invocation: Invocation, name: str | None) -> None:
    """Store a secret, encrypted; entries refer to it as `${secret:NAME}`.

    Without NAME, every value that a server waits for is asked for: secrets, and variables that are
    not set. The server's entry then refers to the stored secret; the entry of another client's file
    is copied into discovery.yaml first.

    The value is asked for without showing it, or read from stdin if there is no terminal.
    SERVER/NAME is a secret that only the entry of SERVER may refer to. A running gateway lists a
    server that waited for the secret at once; a server that is running gets a new value when it is
    started again.

    \b
      discovery secrets set
      discovery secrets set GITHUB_TOKEN
      pass show jira | discovery secrets set jira/TOKEN
    """
    if name is None:
        from discovery_cli import value_prompts

        if not may_ask() or invocation.as_json:
            hint = "`discovery secrets set NAME` reads a value from stdin"
            raise click.UsageError(f"there is no terminal to ask on; {hint}")
        if not value_prompts.ask_for(invocation, lists=True):
            invocation.output.say("no server waits for a value")
        return
    if not is_secret_name(name):
        raise InvalidSecretError.name()
    secrets = owner_secrets(invocation)
    is_new = name not in secrets.names()
    secrets.set(name, _value(name))
    output = invocation.output
    if output.as_json:
        output.answer({"name": name, "is_new": is_new})
        return
    output.say(f"{name} is {'stored' if is_new else 'replaced'}; write ${{secret:{name}}} for it")
    invocation.say_of_this_machine("secrets are stored")


@command.command("list")
@pass_invocation
def list_(invocation: Invocation) -> ExitCode:
    """List secrets, the servers that use them, and those that are missing.

    The place of the encryption key is shown as well. Exits with 6 if a secret cannot be decrypted.

    \b
      discovery secrets list
    """
    secrets, servers = owner_secrets(invocation), _references(invocation)
    stored = {name: _length(secrets, name) for name in secrets.names()}
    code = ExitCode.SECRET_MISSING if None in stored.values() else ExitCode.OK
    missing = [name for name in servers if name not in stored]
    output = invocation.output
    if output.as_json:
        forms: list[JSONObject] = [
            {"name": name, "length": length, "servers": list(servers.get(name, ()))}
            for name, length in stored.items()
        ]
        output.answer(
            {
                "secrets": forms,
                "missing": [{"name": name, "servers": servers[name]} for name in missing],
                "key": secrets.key_place(),
                "others_have_their_own": invocation.shares_registry,
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
    output.say(_store_line(len(stored), secrets.key_place()))
    invocation.say_of_this_machine("secrets are stored")
    if code is not ExitCode.OK:
        output.say("hint: discovery doctor")
    elif missing:
        output.say(f"hint: discovery secrets set {missing[0]}")
    return code


@command.command("remove")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def remove(invocation: Invocation, names: tuple[str, ...], *, yes: bool) -> ExitCode:
    """Remove secrets.

    A server that needs a removed secret can no longer be started, so you are asked before a secret
    that is in use is removed. Exits with 2 if a name is not stored; the others are removed.

    \b
      discovery secrets remove github/TOKEN
    """
    secrets, output = owner_secrets(invocation), invocation.output
    stored = frozenset(secrets.names())
    used = _used(invocation, [name for name in dict.fromkeys(names) if name in stored])
    for name, users in used.items():
        output.say(f"{name} is used by {', '.join(users)}")
    agreed = not used or _is_agreed(used, yes=yes)
    deleted = [name for name in dict.fromkeys(names) if agreed and secrets.delete(name)]
    unknown = [name for name in dict.fromkeys(names) if name not in stored]
    if output.as_json:
        output.answer({"deleted": deleted, "unknown": unknown, "used_by": used})
    for name in deleted:
        output.say(f"{name} is deleted")
    if not agreed:
        output.say("no secret was deleted")
    for name in unknown:
        output.say(f"no secret {named(name)} is stored; `discovery secrets list` shows them")
    return ExitCode.USAGE if unknown else ExitCode.OK


@command.command("rotate-key")
@pass_invocation
def rotate_key(invocation: Invocation) -> None:
    """Encrypt all secrets and logins with a new key, and delete the old one.

    The new key is derived from $DISCOVERY_SECRET_NEW_KEY or $DISCOVERY_SECRETS_NEW_PASSPHRASE, if
    one is set; use it as $DISCOVERY_SECRET_KEY or $DISCOVERY_SECRETS_PASSPHRASE from then on.
    Otherwise the current key or passphrase is used again, with a new salt. Without either, the new
    key is stored in the keyring of the system, or else in a file beside the secrets.

    \b
      discovery secrets rotate-key
    """
    from discovery_engine.secrets import keys

    place, output = owner_secrets(invocation).rotate_key(), invocation.output
    if output.as_json:
        output.answer({"key": place})
    elif place is None:
        output.say("no secret is stored, so there is no key")
    else:
        output.say(f"everything is encrypted with a new key, {_NEW_KEY_LOCATIONS[place]}")
        if os.environ.get(keys.NEXT_KEY_VARIABLE):
            output.say(f"from now on, set {keys.KEY_VARIABLE} to the new key")
        elif os.environ.get(keys.NEXT_VARIABLE):
            output.say(f"from now on, set {keys.VARIABLE} to the new passphrase")


def _store_line(count: int, place: KeyPlace) -> str:
    from discovery_engine.secrets.keys import working_keyring

    name = working_keyring() if place == "keyring" else ""
    location = f"{_NEW_KEY_LOCATIONS[place]}, {name}" if name else _NEW_KEY_LOCATIONS[place]
    if not count:
        return f"0 secrets; the key of a first one would be {location}"
    return f"{counted(count, 'secret')}, encrypted; the key is {location}"


def _references(invocation: Invocation) -> Mapping[str, Sequence[str]]:
    """Map each secret's name to its references, in the order of the configuration.

    A reference is the name of a server or, for an override, `overrides.INDEX`.
    """
    from discovery_engine.config.loading.loader import resolve_settings
    from discovery_engine.engine.restore import with_registered
    from discovery_engine.rules.overrides.pinning import pinned_secrets
    from discovery_engine.upstream.connection import stored_secrets

    files = resolve_settings(invocation.config, os.environ, frozen=invocation.frozen)
    settings = with_registered(files, data_dir=invocation.data_dir, environ=os.environ)
    references: dict[str, list[str]] = {}
    for server in settings.servers:
        for name in stored_secrets(server):
            references.setdefault(name, []).append(server.name)
    for index, override in enumerate(settings.overrides):
        for name in pinned_secrets(override):
            references.setdefault(name, []).append(f"overrides.{index}")
    return references


def _used(invocation: Invocation, names: Sequence[str]) -> dict[str, list[str]]:
    """Map the names of used secrets to their references."""
    try:
        references = _references(invocation)
    except ConfigurationError:  # secrets can be deleted even so
        unknown = "servers that are not known, because the configuration is invalid"
        return {name: [unknown] for name in names}
    return {name: list(references[name]) for name in names if name in references}


def _is_agreed(names: Collection[str], *, yes: bool) -> bool:
    """Return whether the person agrees to delete secrets that are in use.

    Raises:
        UsageError: If there is no terminal to ask on.
    """
    if yes:
        return True
    them = "it" if len(names) == 1 else "them"
    if not may_ask():
        problem = f"servers refer to {', '.join(names)}, and there is no terminal to ask on"
        raise click.UsageError(f"{problem}; use --yes to delete {them} all the same")
    return click.confirm(f"Delete {them} all the same?", default=False, err=True)


def _value(name: str) -> str:
    """Return a value typed at the terminal, unseen, or read from stdin less one final newline."""
    if sys.stdin.isatty():
        return typed_value(f"value of {name}")
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")


def _length(secrets: OwnerSecrets, name: str) -> str | None:
    """Return the class of a secret's length; None if it cannot be decrypted."""
    try:
        return length_class(secrets.get(name) or "")
    except SecretStoreError:
        return None
