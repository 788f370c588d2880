"""What an installation would do, in full, before anything of it is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from discovery_engine.config.redaction import without_credentials
from discovery_engine.errors import InstallFailedError, MissingInputsError
from discovery_engine.installer.input_values import is_secret_input
from discovery_engine.installer.sandbox_grants import Grants
from discovery_engine.marketplace.entry import RemoteOffer
from discovery_engine.secrets.secret_names import NameKind
from discovery_engine.upstream.shown_values import shown_value

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.diagnostics import Diagnostic
    from discovery_engine.installer.input_values import AskedInput
    from discovery_engine.installer.install_records import Place
    from discovery_engine.marketplace.entry import MarketplaceEntry, PackageOffer
    from discovery_engine.marketplace.package_managers.prerequisites import Prerequisite
    from discovery_engine.registry.server_records import PackagePin
    from discovery_engine.upstream.stdio.sandbox.choice import Choice


class SecretValues(Mapping[str, str]):
    """Secrets that are to be stored, by name; no form of it shows a value."""

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
    """What would be run and written, and what is missing for it."""

    entry: MarketplaceEntry
    offer: PackageOffer | RemoteOffer
    name: str
    """What the server will be called."""
    pin: PackagePin
    server_entry: JSONObject
    """As it will stand in `servers:`; references, and no secret."""
    asked: tuple[AskedInput, ...] = ()
    secrets: SecretValues = SecretValues({})
    prerequisites: tuple[Prerequisite, ...] = ()
    warnings: tuple[str, ...] = ()
    archive: Path | None = None
    """A downloaded bundle, not unpacked yet."""
    folders: tuple[Path, ...] = ()
    """Those that will be the server's own, and go with it."""
    reads: tuple[Path, ...] = ()
    """Others that it cannot start without."""
    confinement: Choice | None = None
    """What its sandbox is on this system; None for a remote server."""
    where: Place | None = None
    """Where it would be entered; None if that was not asked."""
    grants: Grants = Grants()
    values: Mapping[str, tuple[str, ...]] = {}
    """What the owner gave that is not secret, to plan an update with."""

    @property
    def argv(self) -> tuple[str, ...]:
        """What would be started; empty for a remote server."""
        command = self.server_entry.get("command")
        return (str(command), *map(str, self.server_entry.get("args", ()))) if command else ()

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that the server gets, as they stand in its entry."""
        found: Mapping[str, str] = self.server_entry.get("env", {})
        return found

    @property
    def url(self) -> str:
        """What would be reached; empty for a local server."""
        return str(self.server_entry.get("url", ""))

    @property
    def headers(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.server_entry.get("headers", {})
        return found

    def shown(self, values: Mapping[str, str]) -> dict[str, str]:
        """Variables or headers, also of another version: of secret ones only references."""
        secrets = self._secret_names
        return {
            name: shown_value(
                name, text, is_secret=name in secrets or NameKind.of(name) is NameKind.SECRET
            )
            for name, text in values.items()
        }

    @property
    def _secret_names(self) -> frozenset[str]:
        """The variables and headers that are secret, or hold something that is."""
        offer = self.offer
        inputs = offer.headers if isinstance(offer, RemoteOffer) else offer.environment
        secret = (one.name for one in inputs if any(map(is_secret_input, (one, *one.variables))))
        asked = (one.key for one in self.asked if one.is_secret)
        return frozenset((*secret, *asked))

    @property
    def folder(self) -> Path:
        """Where its own copy of the package is."""
        [folder] = self.folders
        return folder

    @property
    def missing(self) -> tuple[AskedInput, ...]:
        """What is required and has no value yet."""
        return tuple(one for one in self.asked if one.is_missing)

    def warned(self, warnings: Sequence[Diagnostic], where: Place) -> InstallPlan:
        """The plan with what the marketplace warns of, the gravest first, and its place."""
        messages = (*(one.message for one in warnings), *self.warnings)
        return replace(self, warnings=tuple(dict.fromkeys(messages)), where=where)

    def require_ready(self, *, hint: str = "") -> None:
        """Check that nothing is missing; `hint` is the next step if a value is.

        Raises:
            MissingInputsError: If a required value is.
            InstallFailedError: If a program cannot be used.
        """
        if missing := self.missing:
            secrets = [one.key for one in missing if one.is_secret]
            raise MissingInputsError(self.name, [one.key for one in missing], secrets, hint=hint)
        for one in self.prerequisites:
            if not one.is_usable:
                raise InstallFailedError(f"{one.program} is needed: {one.problem}", hint=one.hint)

    def to_json(self) -> JSONObject:
        """For programs and people: of secret variables and headers only references."""
        shown: dict[str, Any] = {
            "name": self.name,
            "entry": self.entry.name,
            "origins": [origin.source for origin in self.entry.origins],
            "trust": self.entry.trust,
            "package": {
                "type": self.pin.registry_type,
                "identifier": self.pin.identifier,
                "version": self.pin.version,
                "integrity": self.pin.integrity,
                "runtime": self.pin.runtime,
            },
            "warnings": list(self.warnings),
            "inputs": [_input_form(one) for one in self.asked],
            "missing": [one.key for one in self.missing],
            "stores": sorted(self.secrets),
            "where": self.where,
            "prerequisites": [
                {"program": p.program, "version": p.version, "problem": p.problem, "hint": p.hint}
                for p in self.prerequisites
            ],
        }
        if self.url:
            shown["url"] = without_credentials(self.url)
            shown["headers"] = self.shown(self.headers)
        else:
            shown["command"] = list(self.argv)
            shown["env"] = self.shown(self.environment)
            shown["sandbox"] = self.server_entry.get("sandbox")
            shown["confinement"] = self.confinement and to_builtins(self.confinement)
            shown["cwd"] = self.server_entry.get("cwd")
        return shown


def _input_form(one: AskedInput) -> JSONObject:
    return {
        "name": one.key,
        "description": one.input.description,
        "required": one.input.is_required,
        "secret": one.is_secret,
        "given": one.is_given,
        "stored_as": one.stored_as or None,
        "default": "" if one.is_secret else one.input.default,
        "choices": list(one.input.choices),
        "format": one.input.format,
    }
