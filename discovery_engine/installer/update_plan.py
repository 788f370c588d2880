"""What an update would change, before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.errors import InstallFailedError

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_engine.errors import DiscoveryError
    from discovery_engine.installer.input_values import AskedInput
    from discovery_engine.installer.install_records import InstalledServer
    from discovery_engine.installer.plan import InstallPlan

    _Shown = Callable[[Mapping[str, str]], Mapping[str, str]]


class Difference(Struct, frozen=True):
    """One thing that is different afterwards; an empty text is nothing."""

    what: str
    """In one word, such as `version`, `argument`, `environment`, `sandbox` or `tool`."""
    before: str
    after: str


class UpdatePlan(Struct, frozen=True):
    """An update of one server; nothing of it is done."""

    record: InstalledServer
    install: InstallPlan | None = None
    """The version that it would have; None if that cannot be found out."""
    differences: tuple[Difference, ...] = ()
    problem: DiscoveryError | None = None
    """Why it cannot be updated."""

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def is_empty(self) -> bool:
        """Whether the server is as the marketplace has it, and has all values that it needs."""
        return not (self.differences or self.missing or self.problem)

    @property
    def asked(self) -> tuple[AskedInput, ...]:
        """What its owner may give for it."""
        return self.install.asked if self.install else ()

    @property
    def missing(self) -> tuple[AskedInput, ...]:
        """What it would require, and has no value yet."""
        return self.install.missing if self.install else ()

    def require_ready(self) -> InstallPlan:
        """The version that it would have, for which nothing is missing.

        Raises:
            DiscoveryError: The problem of the plan, or as `InstallPlan.require_ready`.
        """
        if self.problem is not None or self.install is None:
            raise self.problem or InstallFailedError(f"{self.name} cannot be updated")
        self.install.require_ready(hint=self._way_to_values())
        return self.install

    def _way_to_values(self) -> str:
        """The commands that give what is missing."""
        secrets = [
            f"`discovery secrets set {one.stored_as}`" for one in self.missing if one.is_secret
        ]
        words = ["discovery", "marketplace", "update", self.name]
        for one in self.missing:
            words += [] if one.is_secret else ["--with", f"{one.key}=…"]
        return ", then ".join((*secrets, f"`{' '.join(words)}`"))


def differences(
    record: InstalledServer, plan: InstallPlan, known_tools: Collection[str]
) -> tuple[Difference, ...]:
    """What is different, the most telling first.

    Args:
        record: The server as it is.
        plan: As it would be.
        known_tools: The names of its tools as they were listed; empty if they never were.
    """
    before, after = record.current, plan
    found = [
        Difference("version", before.pin.version, after.pin.version),
        Difference("integrity", before.pin.integrity, after.pin.integrity),
        Difference("package", before.pin.identifier, after.pin.identifier),
        Difference("runtime", before.pin.runtime, after.pin.runtime),
        *_entry_differences(before.server_entry, after.server_entry, plan.shown),
    ]
    if plan.entry.tools is not None and known_tools:
        offered = {tool.name for tool in plan.entry.tools}
        found += (Difference("tool", name, "") for name in sorted(set(known_tools) - offered))
        found += (Difference("tool", "", name) for name in sorted(offered - set(known_tools)))
    return tuple(one for one in found if one.before != one.after)


def merged_entry(written: JSONObject, current: JSONObject, new: JSONObject) -> JSONObject:
    """The entry after an update: what its owner changed by hand stays, if the update leaves it.

    Args:
        written: As the installation wrote it.
        current: As it stands now.
        new: As it would be written now.
    """
    merged = dict(current)
    for key in {**written, **new}:
        if written.get(key) == new.get(key):
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
    """Arguments that are gone or new; those that only moved are shown as both lists."""
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
        return ", ".join(f"{key}: {_text(one)}" for key, one in value.items())
    if isinstance(value, list):
        return " ".join(map(_text, value))
    return "" if value is None else str(value)
