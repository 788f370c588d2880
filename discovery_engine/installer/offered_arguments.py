"""The arguments of a server, and the few options that an entry may give to a runtime.

Arguments of a server come behind the package, where the runtime hands them on. An option before it
would be the runtime's own: it could mount the disk, run a shell or name another registry, so only
those of a short list are taken, and none that an entry chooses freely.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.text import quoted
from discovery_engine.errors import InstallRefusedError
from discovery_engine.installer.input_values import InputValues, key_of, literal
from discovery_engine.marketplace.entry import Input

if TYPE_CHECKING:
    from discovery_engine.marketplace.entry import PackageOffer

_PYTHON = re.compile(r"(?:cpython|python)?@?3\.\d{1,2}(?:\.\d{1,2})?")
_EXECUTABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_AMOUNT = re.compile(r"\d{1,6}(?:\.\d{1,3})?[bkmg]?", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DESTINATION = re.compile(r"/[A-Za-z0-9._/-]{1,255}")
_MOUNT = re.compile(
    r"type=bind,(?:src|source)=(?P<source>\{[^{}]+\}),(?:dst|destination|target)=(?P<place>[^,]+)"
    r"(?P<only>,(?:readonly|ro)(?:=true)?)?"
)
_VOLUME = re.compile(r"(?P<source>\{[^{}]+\}):(?P<place>[^:]+)(?P<only>:ro)?")


class RuntimeOptions(Struct, frozen=True):
    """What of an entry's options for its runtime is used."""

    options: tuple[str, ...] = ()
    executable: str = ""
    """The program of the package that is meant; empty for the usual one."""
    environment: tuple[Input, ...] = ()
    """Variables that it sets with an option."""
    warnings: tuple[str, ...] = ()


class _Word(NamedTuple):
    """A flag with its value, or a word without a flag."""

    flag: str
    value: str
    input: Input

    def __str__(self) -> str:
        return " ".join(filter(None, (self.flag, self.value)))


def server_arguments(inputs: Iterable[Input], values: InputValues) -> tuple[str, ...]:
    """What is handed to the server itself, in the order of its entry."""
    return tuple(word for one in inputs for word in _words_of(one, values))


def runtime_options(offer: PackageOffer, values: InputValues) -> RuntimeOptions:
    """The options that an entry may give to its runtime.

    Raises:
        InstallRefusedError: If it gives any other.
    """
    read = _READERS[offer.registry_type]
    chosen = RuntimeOptions()
    for word in _runtime_words(offer.runtime_arguments):
        found = read(word, chosen, offer, values)
        if found is None:
            raise InstallRefusedError(
                f"the entry gives {_RUNTIMES[offer.registry_type]} the option {quoted(str(word))},"
                " which is not allowed: it could run or read anything on this machine",
                hint="if you rely on its publisher, write an entry by hand: `discovery add`",
            )
        chosen = found
    return chosen


def _words_of(one: Input, values: InputValues) -> Iterator[str]:
    if one.kind == "positional":
        yield from values.texts(one)
        return
    flag = literal(one.name)
    if _is_bare_flag(one) and not values.has(one):
        yield flag
        return
    texts = values.texts(one)
    if one.format == "boolean" and not one.value:
        if texts == ("true",):
            yield flag
        return
    for text in texts:
        yield flag
        if text:
            yield text


def _is_bare_flag(one: Input) -> bool:
    """Whether it is a flag without a value, so that there is nothing to ask for."""
    asks = (one.value, one.default, one.placeholder, one.choices, one.variables, one.is_secret)
    is_described = bool(one.description) or one.is_repeated
    return not any(asks) and not is_described and one.format == "string"


def _runtime_words(arguments: Iterable[Input]) -> Iterator[_Word]:
    """The options as their entry has them, in whichever of the usual ways they are written."""
    pending: _Word | None = None
    for one in arguments:
        value = one.value or one.default
        if one.kind == "named":
            flag, equals, rest = one.name.partition("=")
            word = _Word(flag, rest if equals else value, one)
        elif (value or one.name).startswith("-"):  # a flag that is written as a word
            flag, equals, rest = (value or one.name).partition("=")
            word = _Word(flag, rest if equals else "", one)
        elif pending and pending.flag in _WITH_VALUE and not pending.value:
            pending = pending._replace(value=value, input=one)
            continue
        else:
            word = _Word("", value, one)
        if pending:
            yield pending
        pending = word
    if pending:
        yield pending


def _npm(
    word: _Word, chosen: RuntimeOptions, offer: PackageOffer, _: InputValues
) -> RuntimeOptions | None:
    match word:
        case ("-y" | "--yes" | "-q" | "--quiet" | "--silent", "", _):
            return chosen  # the first is given in any case
        case ("-p" | "--package" | "", value, _) if _is_package(value, offer, "@"):
            return chosen
        case ("", value, _) if not chosen.executable and _EXECUTABLE.fullmatch(value):
            return replace(chosen, executable=value)
    return None


def _pypi(
    word: _Word, chosen: RuntimeOptions, offer: PackageOffer, _: InputValues
) -> RuntimeOptions | None:
    match word:
        case ("-q" | "--quiet", "", _):
            return chosen
        case ("--from" | "", value, _) if _is_package(value, offer, "==", "@"):
            return chosen
        case ("-p" | "--python", value, _) if _PYTHON.fullmatch(value):
            return replace(chosen, options=(*chosen.options, "--python", value))
        case ("", value, _) if not chosen.executable and _EXECUTABLE.fullmatch(value):
            return replace(chosen, executable=value)
    return None


def _oci(
    word: _Word, chosen: RuntimeOptions, _: PackageOffer, values: InputValues
) -> RuntimeOptions | None:
    match word:
        case ("-i" | "--interactive" | "--rm" | "", "" | "run", _):
            return chosen  # these are given in any case
        case ("-e" | "--env", text, one):
            return _with_variable(text, one, chosen)
        case ("--mount", text, one):
            return _with_mount(_MOUNT.fullmatch(text), one, chosen, values)
        case ("-v" | "--volume", text, one):
            return _with_mount(_VOLUME.fullmatch(text), one, chosen, values)
    restriction = _restriction(word)
    return replace(chosen, options=(*chosen.options, *restriction)) if restriction else None


def _restriction(word: _Word) -> tuple[str, ...]:
    """An option that takes something from a container; empty if it is none."""
    match word[:2]:
        case ("--init" | "--read-only" as flag, ""):
            return (flag,)
        case ("--network" | "--net", "none"):
            return ("--network", "none")
        case ("-m" | "--memory" | "--cpus" as flag, value) if _AMOUNT.fullmatch(value):
            return (flag, value)
    return ()


def _nuget(
    word: _Word, chosen: RuntimeOptions, _: PackageOffer, __: InputValues
) -> RuntimeOptions | None:
    return chosen if word[:2] in {("--yes", ""), ("-y", "")} else None


def _bundle(
    _: _Word, __: RuntimeOptions, ___: PackageOffer, ____: InputValues
) -> RuntimeOptions | None:
    return None  # how a bundle is started stands in the bundle


_Reader = Callable[[_Word, RuntimeOptions, "PackageOffer", InputValues], "RuntimeOptions | None"]
_READERS: Mapping[str, _Reader] = {
    "npm": _npm,
    "pypi": _pypi,
    "oci": _oci,
    "nuget": _nuget,
    "mcpb": _bundle,
}
_RUNTIMES = {"npm": "npx", "pypi": "uvx", "oci": "docker", "nuget": "dnx", "mcpb": "the bundle"}
_WITH_VALUE = {
    *("-p", "--package", "--from", "--python", "-e", "--env", "-m", "--memory", "--cpus"),
    *("--network", "--net", "--mount", "-v", "--volume"),
}


def _is_package(value: str, offer: PackageOffer, *separators: str) -> bool:
    """Whether it names the very package of the offer, in its version or in any."""
    spellings = {f"{offer.identifier}{separator}{offer.version}" for separator in separators}
    return value in {offer.identifier, *spellings, f"{offer.identifier}@latest"}


def _with_variable(text: str, one: Input, chosen: RuntimeOptions) -> RuntimeOptions | None:
    name, equals, value = text.partition("=")
    if not _VARIABLE.fullmatch(name):
        return None
    variable = replace(one, name=name, kind="environment", value=value, default="")
    if equals and not value:
        return None
    return replace(chosen, environment=(*chosen.environment, variable))


def _with_mount(
    mount: re.Match[str] | None, one: Input, chosen: RuntimeOptions, values: InputValues
) -> RuntimeOptions | None:
    """A folder that the owner alone names: the entry gives neither it nor a default."""
    if mount is None or not _DESTINATION.fullmatch(mount["place"]):
        return None
    name = mount["source"][1:-1]
    variable = next((v for v in one.variables if v.name == name), None)
    if variable is None or variable.value:
        return None
    is_required = one.is_required or variable.is_required
    asked = replace(variable, default="", format="filepath", is_required=is_required)
    folder = values.text(asked)
    if folder is None:
        return chosen
    if "," in folder or ":" in folder:
        return None
    only = ",readonly" if mount["only"] else ""
    option = f"type=bind,src={folder},dst={mount['place']}{only}"
    access = "reads" if only else "reads and changes"
    return replace(
        chosen,
        options=(*chosen.options, "--mount", option),
        warnings=(*chosen.warnings, f"the container {access} {folder} ({key_of(variable)})"),
    )


def refused_hint(offer: PackageOffer) -> str | None:
    """The program that an entry asks for, if it is none with which its packages are run."""
    hint = offer.runtime_hint.strip().lower()
    return None if not hint or hint in _HINTS[offer.registry_type] else offer.runtime_hint


_HINTS: Mapping[str, Sequence[str]] = {
    "npm": ("npx", "npm", "node", "bunx", "pnpm", "pnpx", "yarn"),
    "pypi": ("uvx", "uv", "pipx", "pip", "python", "python3"),
    "oci": ("docker", "podman"),
    "nuget": ("dnx", "dotnet"),
    "mcpb": ("node", "python", "python3", "uv", "binary"),
}
"""What publishers write for the usual ways; which program is run is decided by the type alone."""
