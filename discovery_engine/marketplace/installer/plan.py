"""The plan of an installation or an update, with all its effects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from discovery_engine.engine.json_forms import all_fields, fields
from discovery_engine.errors import InstallFailedError, MissingInputsError
from discovery_engine.marketplace.entry import RemoteOffer
from discovery_engine.marketplace.installer.offered_inputs import is_secret_input
from discovery_engine.secrets.masking import without_credentials
from discovery_engine.secrets.secret_names import NameKind
from discovery_engine.store.install_records import Grants, Place
from discovery_engine.upstream.identity import shown_value

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_engine.errors import Diagnostic, DiscoveryError
    from discovery_engine.marketplace.entry import MarketplaceEntry, PackageOffer
    from discovery_engine.marketplace.installer.offered_inputs import AskedInput
    from discovery_engine.marketplace.package_managers.manager_command import Prerequisite
    from discovery_engine.store.install_records import InstalledServer
    from discovery_engine.store.server_records import PackagePin
    from discovery_engine.upstream.stdio.sandbox.choice import Choice

    _Shown = Callable[[Mapping[str, str]], Mapping[str, str]]


class SecretValues(Mapping[str, str]):
    """Secrets to be stored, by name; `repr` shows no value."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"SecretValues({sorted(self._values)})"


class InstallPlan(Struct, frozen=True):
    """A planned installation: the entry and program, the values to store, and what is missing."""

    entry: MarketplaceEntry
    offer: PackageOffer | RemoteOffer
    name: str
    """The name of the server."""
    pin: PackagePin
    server_entry: JSONObject
    """The entry to write under `servers`, with references in place of secrets."""
    asked: tuple[AskedInput, ...] = ()
    secrets: SecretValues = SecretValues({})
    prerequisites: tuple[Prerequisite, ...] = ()
    warnings: tuple[str, ...] = ()
    archive: Path | None = None
    """The downloaded bundle, not unpacked yet."""
    folders: tuple[Path, ...] = ()
    """The server's own folders, which are removed with it."""
    confinement: Choice | None = None
    """The sandbox that it gets on this system; None for a remote server."""
    where: Place | None = None
    """The place where it will be written; None if unknown."""
    grants: Grants = Grants()
    values: Mapping[str, tuple[str, ...]] = {}
    """The owner's values that are not secret, for planning updates."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The command to start; empty for a remote server."""
        command = self.server_entry.get("command")
        return (str(command), *map(str, self.server_entry.get("args", ()))) if command else ()

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables in the entry."""
        variables: Mapping[str, str] = self.server_entry.get("env", {})
        return variables

    @property
    def url(self) -> str:
        """The URL of a remote server; empty for a local one."""
        return str(self.server_entry.get("url", ""))

    @property
    def headers(self) -> Mapping[str, str]:
        headers: Mapping[str, str] = self.server_entry.get("headers", {})
        return headers

    def shown(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return variables or headers for display, with only the references of secret ones."""
        secrets = self._secret_names
        return {
            name: shown_value(
                name, text, is_secret=name in secrets or NameKind.of(name) is NameKind.SECRET
            )
            for name, text in values.items()
        }

    @property
    def _secret_names(self) -> frozenset[str]:
        """The names of variables and headers that are secret, or contain a secret."""
        offer = self.offer
        inputs = offer.headers if isinstance(offer, RemoteOffer) else offer.environment
        secret = (
            offered_input.name
            for offered_input in inputs
            if any(map(is_secret_input, (offered_input, *offered_input.variables)))
        )
        asked_keys = (asked_input.key for asked_input in self.asked if asked_input.is_secret)
        return frozenset((*secret, *asked_keys))

    @property
    def missing(self) -> tuple[AskedInput, ...]:
        """The required inputs that have no value yet."""
        return tuple(asked_input for asked_input in self.asked if asked_input.is_missing)

    def warned(self, warnings: Sequence[Diagnostic], where: Place) -> InstallPlan:
        """Return the plan with the marketplace's warnings before its own, and its place."""
        messages = (*(warning.message for warning in warnings), *self.warnings)
        return replace(self, warnings=tuple(dict.fromkeys(messages)), where=where)

    def require_ready(self, *, hint: str = "") -> None:
        """Check that no value and no program is missing.

        `hint` is the next step for missing values.

        Raises:
            MissingInputsError: If a required value is missing.
            InstallFailedError: If a program cannot be used.
        """
        if missing := self.missing:
            secrets = [asked_input.key for asked_input in missing if asked_input.is_secret]
            raise MissingInputsError(
                self.name, [asked_input.key for asked_input in missing], secrets, hint=hint
            )
        for prerequisite in self.prerequisites:
            if not prerequisite.is_usable:
                raise InstallFailedError(
                    f"{prerequisite.program} is needed: {prerequisite.problem}",
                    hint=prerequisite.hint,
                )

    def to_json(self) -> JSONObject:
        """Return the plan for display, with only the references of secret variables and headers."""
        form: dict[str, Any] = {
            "name": self.name,
            "entry": self.entry.name,
            "origins": [origin.source for origin in self.entry.origins],
            "trust": self.entry.trust,
            "package": fields(self.pin, "type=registry_type identifier version integrity runtime"),
            "warnings": list(self.warnings),
            "inputs": [_input_form(asked_input) for asked_input in self.asked],
            "missing": [asked_input.key for asked_input in self.missing],
            "stores": sorted(self.secrets),
            "where": self.where,
            "prerequisites": all_fields(self.prerequisites, "program version problem hint"),
        }
        if self.url:
            form["url"] = without_credentials(self.url)
            form["headers"] = self.shown(self.headers)
        else:
            form["command"] = list(self.argv)
            form["env"] = self.shown(self.environment)
            form["sandbox"] = self.server_entry.get("sandbox")
            form["confinement"] = self.confinement and to_builtins(self.confinement)
            form["cwd"] = self.server_entry.get("cwd")
        return form


def _input_form(asked_input: AskedInput) -> JSONObject:
    return {
        "name": asked_input.key,
        "description": asked_input.input.description,
        "required": asked_input.input.is_required,
        "secret": asked_input.is_secret,
        "given": asked_input.is_given,
        "stored_as": asked_input.stored_as or None,
        "default": "" if asked_input.is_secret else asked_input.input.default,
        "choices": list(asked_input.input.choices),
        "format": asked_input.input.format,
    }


# Plans of updates, and the results of changes.


class InstalledChange(Struct, frozen=True):
    """A server after an installation, an update or a rollback."""

    name: str
    """The name of the server."""
    where: Place
    diff: str
    pin: PackagePin
    problem: str = ""
    """The failure of its first start; empty if there was none. The server is added anyway."""
    needed: tuple[AskedInput, ...] = ()
    """The variables that it named as missing when it failed; an update gives them."""


class Difference(Struct, frozen=True):
    """One difference between two versions; an empty text stands for nothing."""

    what: str
    """One word, such as `version`, `argument`, `environment`, `sandbox` or `tool`."""
    before: str
    after: str


class UpdatePlan(Struct, frozen=True):
    """A planned update of one server."""

    record: InstalledServer
    install: InstallPlan | None = None
    """The plan of the new version; None if it cannot be determined."""
    differences: tuple[Difference, ...] = ()
    problem: DiscoveryError | None = None
    """The reason why it cannot be updated; None if it can."""

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to update: no difference, no missing value, no problem."""
        return not (self.differences or self.missing or self.problem)

    @property
    def asked(self) -> tuple[AskedInput, ...]:
        """The inputs that accept values."""
        return self.install.asked if self.install else ()

    @property
    def missing(self) -> tuple[AskedInput, ...]:
        """The required inputs without a value."""
        return self.install.missing if self.install else ()

    def require_ready(self) -> InstallPlan:
        """Return the plan of the new version, after checking that nothing is missing.

        Raises:
            DiscoveryError: The problem of this plan, or an error of `InstallPlan.require_ready`.
        """
        if self.problem is not None or self.install is None:
            raise self.problem or InstallFailedError(f"{self.name} cannot be updated")
        self.install.require_ready(hint=self._way_to_values())
        return self.install

    def _way_to_values(self) -> str:
        """Return the commands that give the missing values."""
        secrets = [
            f"`discovery secrets set {asked_input.stored_as}`"
            for asked_input in self.missing
            if asked_input.is_secret
        ]
        words = ["discovery", "marketplace", "update", self.name]
        for asked_input in self.missing:
            words += [] if asked_input.is_secret else ["--with", f"{asked_input.key}=…"]
        return ", then ".join((*secrets, f"`{' '.join(words)}`"))


def differences(
    record: InstalledServer, plan: InstallPlan, known_tools: Collection[str]
) -> tuple[Difference, ...]:
    """Return the differences, the most important first.

    Args:
        record: The installed server.
        plan: The plan of the new version.
        known_tools: The names of its listed tools; empty if it was never listed.
    """
    before, after = record.current, plan
    candidates = [
        Difference("version", before.pin.version, after.pin.version),
        Difference("integrity", before.pin.integrity, after.pin.integrity),
        Difference("package", before.pin.identifier, after.pin.identifier),
        Difference("runtime", before.pin.runtime, after.pin.runtime),
        *_entry_differences(before.server_entry, after.server_entry, plan.shown),
    ]
    if plan.entry.tools is not None and known_tools:
        offered = {tool.name for tool in plan.entry.tools}
        candidates += (Difference("tool", name, "") for name in sorted(set(known_tools) - offered))
        candidates += (Difference("tool", "", name) for name in sorted(offered - set(known_tools)))
    return tuple(difference for difference in candidates if difference.before != difference.after)


def merged_entry(original: JSONObject, current: JSONObject, new: JSONObject) -> JSONObject:
    """Return the entry after an update, which keeps keys that only the owner has changed.

    Args:
        original: The entry as the installation wrote it.
        current: The entry now, with changes of its owner.
        new: The entry of the new version.
    """
    merged = dict(current)
    for key in {**original, **new}:
        if original.get(key) == new.get(key):
            continue
        if key in new:
            merged[key] = new[key]
        else:
            merged.pop(key, None)
    return merged


def _entry_differences(
    before: JSONObject, after: JSONObject, shown: _Shown
) -> Iterator[Difference]:
    yield Difference("program", _text(before.get("command")), _text(after.get("command")))
    yield from _words(before.get("args", ()), after.get("args", ()))
    yield from _values("environment", shown(before.get("env", {})), shown(after.get("env", {})))
    yield Difference("address", _text(before.get("url")), _text(after.get("url")))
    yield from _values("header", shown(before.get("headers", {})), shown(after.get("headers", {})))
    yield Difference("sandbox", _text(before.get("sandbox")), _text(after.get("sandbox")))
    yield Difference(
        "description", _text(before.get("description")), _text(after.get("description"))
    )


def _words(before: Collection[str], after: Collection[str]) -> Iterator[Difference]:
    """Yield removed and added arguments; if the order alone changed, both lists."""
    gone = [word for word in before if word not in after]
    new = [word for word in after if word not in before]
    for number in range(max(len(gone), len(new))):
        yield Difference(
            "argument", "".join(gone[number : number + 1]), "".join(new[number : number + 1])
        )
    if not gone and not new:
        yield Difference("argument", " ".join(before), " ".join(after))


def _values(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted({*before, *after}):
        yield Difference(what, _pair(name, before), _pair(name, after))


def _pair(name: str, values: Mapping[str, str]) -> str:
    return f"{name}={values[name]}" if name in values else ""


def _text(value: JSONValue) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_text(member)}" for key, member in value.items())
    if isinstance(value, list):
        return " ".join(map(_text, value))
    return "" if value is None else str(value)
