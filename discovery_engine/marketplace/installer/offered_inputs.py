"""Inputs that a server is started with: checked values of its owner, and those an entry may set.

What the marketplace says is literal text: `${…}` in it is escaped, so that an entry can refer to
no variable, file or secret of its owner. What the owner gives may be a reference. A secret is
stored under `SERVER/NAME`, and the entry holds `${secret:SERVER/NAME}`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import quote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.address_classes import is_private_name, reachable_classes
from discovery_engine._util.suggestions import did_you_mean
from discovery_engine._util.text import quoted, visible
from discovery_engine.config.syntax import is_header_name, is_loopback, is_secure_address
from discovery_engine.errors import InstallRefusedError, InvalidInputError
from discovery_engine.marketplace.entry import Input
from discovery_engine.marketplace.package_names import PACKAGE_KINDS
from discovery_engine.secrets.references import (
    MalformedReferenceError,
    is_secret_name,
    references,
    split,
)
from discovery_engine.secrets.secret_names import NameKind
from discovery_engine.upstream.identity import selects_code

if TYPE_CHECKING:
    from discovery_engine.marketplace.entry import PackageOffer, RemoteOffer

GivenValues: TypeAlias = Mapping[str, str | Sequence[str]]
"""The owner's values, by the keys that were asked for; several for a repeated argument."""

_PLACES = re.compile(r"\{([^{}]{1,128})\}")
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # a tab may stand in an argument
_UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_TRUE = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class AskedInput(Struct, frozen=True):
    """A value that the owner may give."""

    key: str
    """How it is named in `--with KEY=VALUE`."""
    input: Input
    is_secret: bool
    is_given: bool = False
    """By the owner, now or before."""
    stored_as: str = ""
    """The name under which a secret is stored; empty for any other value."""

    @property
    def is_missing(self) -> bool:
        return self.input.is_required and not self.is_given and not self.input.default


class InputValues:
    """Resolves the inputs of one offer, and notes what is missing."""

    def __init__(
        self,
        server: str,
        values: GivenValues,
        *,
        secrets: GivenValues = MappingProxyType({}),
        earlier: GivenValues = MappingProxyType({}),
        stored: Collection[str] = frozenset(),
    ) -> None:
        """Values for one server.

        Args:
            server: What it is called.
            values: What its owner gives.
            secrets: The same of what is to be stored, also where its publisher does not say so.
                Nothing in them is a reference.
            earlier: What its owner gave for the version before; what is not asked for any more is
                forgotten.
            stored: The secrets of this very server that are stored already: `SERVER/NAME`.
        """
        self._server = server
        self._new = {**values, **secrets}
        self._given = {
            key: (value,) if isinstance(value, str) else tuple(value)
            for key, value in {**earlier, **self._new}.items()
        }
        self._secrets = frozenset(secrets)
        self._stored = stored
        self.asked: dict[str, AskedInput] = {}
        self.to_store: dict[str, str] = {}
        """The secrets that were given, by the names under which they are to be stored."""
        self.paths: list[str] = []
        """The files and folders that the owner named, which the server is to use."""

    def texts(self, field: Input) -> tuple[str, ...]:
        """The values of an input as an entry holds them; none if it is unset or missing.

        Raises:
            InvalidInputError: If what was given does not fit.
        """
        if field.value:
            return self._filled(field)
        key = key_of(field)
        name = self._secret_name(key)
        is_secret = is_secret_input(field) or key in self._secrets or name in self._stored
        texts: tuple[str, ...] = ()
        if checked := self._checked(field, key):
            texts = tuple(self._secret_texts(key, checked) if is_secret else checked)
            self.paths += [] if is_secret else filter(_is_path, checked)
        elif is_secret and name in self._stored:
            texts = (f"${{secret:{name}}}",)
        place = name if is_secret else ""
        self.asked[key] = AskedInput(key, field, is_secret, is_given=bool(texts), stored_as=place)
        if texts or not field.default:
            return texts
        return (literal(_published(field, key, field.default)),)

    def _checked(self, field: Input, key: str) -> list[str]:
        """Return the values given for an input, checked.

        Raises:
            InvalidInputError: If it does not fit.
        """
        try:
            return checked_values(
                field, key, self._given.get(key, ()), may_refer=key not in self._secrets
            )
        except InvalidInputError as error:
            if key in self._new:
                raise
            raise InvalidInputError(
                f"what was given for the present version does not fit: {error.message}",
                hint=f"give another value: `--with {_shown(key)}=…`",
            ) from error

    def has(self, field: Input) -> bool:
        """Return whether the owner gave a value for an input."""
        return key_of(field) in self._given

    def text(self, field: Input) -> str | None:
        """The one value of an input; None if it is unset or missing."""
        return next(iter(self.texts(field)), None)

    @property
    def plain(self) -> dict[str, tuple[str, ...]]:
        """The given values that are not secret; references to secrets are kept as references."""
        return {
            key: values
            for key, values in self._given.items()
            if (offered_input := self.asked.get(key))
            and key not in self._secrets
            and (not offered_input.is_secret or all(map(is_reference, values)))
        }

    def require_known(self) -> None:
        """Check that all that was given was asked for.

        Raises:
            InvalidInputError: For the first that was not.
        """
        for key in self._new:
            if key not in self.asked:
                names = tuple(self.asked)
                asks = f"it asks for {', '.join(names)}" if names else "it asks for nothing"
                hint = did_you_mean(key, names, otherwise=asks)
                raise InvalidInputError(f"the server takes no {_shown(key)}", hint=hint)

    def _filled(self, field: Input) -> tuple[str, ...]:
        """The publisher's value with its variables filled in."""
        variables = {variable.name: variable for variable in field.variables}
        filled = {name: self.text(variable) for name, variable in variables.items()}
        if any(filled[name] is None and variables[name].is_required for name in filled):
            return ()
        if filled and not any(filled.values()):
            return ()  # an optional value that is not wanted
        _published(Input(field.name, field.kind), field.name, field.value)
        pieces: list[str] = []
        for number, piece in enumerate(_PLACES.split(field.value)):
            is_place = number % 2 == 1
            if is_place and piece in filled:
                pieces.append(filled[piece] or "")
            else:
                pieces.append(literal(f"{{{piece}}}" if is_place else piece))
        return (joined(pieces),)

    def _secret_texts(self, key: str, values: Iterable[str]) -> Iterable[str]:
        """References to secrets: those that were given, or to what is to be stored."""
        for number, value in enumerate(values, start=1):
            if key not in self._secrets and is_reference(value):
                yield value
                continue
            name = self._secret_name(key if number == 1 else f"{key}_{number}")
            self.to_store[name] = value
            yield f"${{secret:{name}}}"

    def _secret_name(self, key: str) -> str:
        short = _UNSAFE_IN_NAME.sub("_", key).strip("._-") or "SECRET"
        name = f"{self._server}/{short[:128]}"
        return name if is_secret_name(name) else f"{self._server}/SECRET"


def key_of(field: Input) -> str:
    """How an input is named in `--with KEY=VALUE`: a flag without its dashes."""
    return visible(field.name).strip().lstrip("-") or "argument"


def is_secret_input(field: Input) -> bool:
    """Return whether an input is secret according to its publisher or by its name."""
    return field.is_secret or NameKind.of(key_of(field)) is NameKind.SECRET


def literal(text: str) -> str:
    """A text in which nothing is a reference."""
    return text.replace("${", "$${")


def joined(texts: Iterable[str]) -> str:
    """Texts of an entry, one behind the other, in which the same is a reference as in each.

    Two literals together could become one: `$` and `{HOME}`.

    Raises:
        InstallRefusedError: If a dollar sign stands before a reference, which cannot be written.
    """
    parts = [part for text in texts for part in split(text)]
    whole = ""
    for is_literal, group in groupby(parts, key=lambda part: isinstance(part, str)):
        if is_literal:
            whole += literal("".join(map(str, group)))
        else:
            if whole.endswith("$"):
                raise InstallRefusedError("the entry has a dollar sign before one of your values")
            whole += "".join(map(str, group))
    return whole


def is_reference(text: str) -> bool:
    """Return whether a text of the owner refers to something, instead of being the value itself."""
    try:
        return bool(references(text))
    except MalformedReferenceError:
        return False


def checked_values(
    field: Input, key: str, values: Sequence[str], *, may_refer: bool = True
) -> list[str]:
    """Return the values given for an input, in the form in which the server takes them.

    Raises:
        InvalidInputError: If there are several of what is not repeated, or one does not fit.
    """
    if len(values) > 1 and not field.is_repeated:
        raise InvalidInputError(f"{_shown(key)} takes one value, not {len(values)}")
    return [checked_value(field, key, text, may_refer=may_refer) for text in values]


def checked_value(field: Input, key: str, value: str, *, may_refer: bool = True) -> str:
    """A value in the form in which the server takes it.

    Raises:
        InvalidInputError: If it is not one of its choices, not of its format, or no text.
    """
    _refuse_controls(key, value)
    if may_refer:
        try:
            if references(value):
                return value
        except MalformedReferenceError as error:
            raise InvalidInputError(f"{_shown(key)}: {error}") from error
    if field.choices and value not in field.choices:
        choices = ", ".join(quoted(choice) for choice in field.choices)
        raise InvalidInputError(f"{_shown(key)} must be one of {choices}")
    match field.format:
        case "number" if not _is_number(value):
            raise InvalidInputError(f"{_shown(key)} must be a number")
        case "boolean" if value.lower() not in _TRUE:
            raise InvalidInputError(f"{_shown(key)} must be true or false")
        case "boolean":
            return "true" if _TRUE[value.lower()] else "false"
        case "filepath" | "string" if value.startswith("~/"):
            return os.path.expanduser(value)  # noqa: PTH111 - whatever `~` stands for
    return value


def _published(field: Input, key: str, value: str) -> str:
    """A value that the publisher gives, in the form in which the server takes it.

    Raises:
        InstallRefusedError: If it does not fit what the publisher says of it.
    """
    try:
        return checked_value(field, key, value, may_refer=False)
    except InvalidInputError as error:
        raise InstallRefusedError(f"the entry is not usable: its value of {error}") from error


def _is_path(text: str) -> bool:
    """Return whether a value of the owner is a file or a folder of this machine."""
    path = Path(text)
    return path.is_absolute() and os.path.lexists(path) and path != path.parent


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _refuse_controls(key: str, value: str) -> None:
    if match := _CONTROLS.search(value):
        code = f"U+{ord(match.group()):04X}"
        raise InvalidInputError(f"{_shown(key)} contains a control character ({code})")


def _shown(key: str) -> str:
    return visible(key)[:100]


# The environment variables of a server: which names an entry may give, and their values.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_NEVER = re.compile(
    r"(LD|DYLD|DISCOVERY|DOCKER|DOTNET|BASH|MALLOC)_.*|PYTHON.*|NODE_(?!ENV$).*|PATH|PATHEXT"
    r"|HOME|SHELL|TMP|TEMP|TMPDIR|USERPROFILE|COMSPEC|SYSTEMROOT|XDG_.*|IFS|ENV|PROMPT_COMMAND"
    r"|(RUBY|PERL|PERL5)(OPT|LIB|SHELL)|_?JAVA_(TOOL_)?OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH"
    r"|GIT_(SSH|EXEC|CONFIG|ASKPASS|PAGER|EDITOR|TEMPLATE|EXTERNAL|PROXY).*|SSH_ASKPASS|EDITOR"
    r"|PAGER|VISUAL|BROWSER|LESSOPEN|NPM_.*|UV_.*|PIP_.*|VIRTUAL_ENV|CONDA_.*",
    re.IGNORECASE,
)
"""Names that decide what is run, loaded or read, wherever the value comes from."""
_OWNERS_ALONE = re.compile(
    r".*_PROXY|SSL_.*|CURL_.*|REQUESTS_CA_BUNDLE|AWS_CA_BUNDLE|GRPC_.*", re.IGNORECASE
)
"""Names that decide with whom a server speaks: only their owner gives a value."""


class ServerEnvironment(NamedTuple):
    """The variables of an entry."""

    variables: dict[str, str]
    warnings: tuple[str, ...]
    """One for each variable that is left out."""


def environment(inputs: Iterable[Input], values: InputValues) -> ServerEnvironment:
    """The variables of a server; one that is optional, and may not be set, is left out.

    Raises:
        InstallRefusedError: If the entry sets or requires one that it may not.
    """
    variables: dict[str, str] = {}
    left_out: list[str] = []
    for variable in inputs:
        if not _NAME.fullmatch(variable.name):
            raise InstallRefusedError(
                f"{quoted(variable.name)} is no name for an environment variable"
            )
        if reason := _refusal(variable):
            if variable.is_required or variable.value:
                raise InstallRefusedError(
                    f"the entry sets the variable {variable.name}, which {reason}",
                    hint="if you rely on its publisher, write an entry by hand: `discovery add`",
                )
            left_out.append(f"the variable {variable.name} is left out: it {reason}")
            continue
        if (text := values.text(variable)) is not None:
            variables[variable.name] = text
    return ServerEnvironment(variables, tuple(left_out))


def _refusal(field: Input) -> str:
    if _NEVER.fullmatch(field.name) or (
        selects_code(field.name) and not _OWNERS_ALONE.fullmatch(field.name)
    ):
        return "decides what is run or loaded"
    if _OWNERS_ALONE.fullmatch(field.name) and (field.value or field.default):
        return "decides with whom the server speaks"
    return ""


# Arguments come behind the package, where the runtime hands them on. An option before it would be
# the runtime's own, and could mount the disk or run a shell: those of a short list are taken.

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
    """The options of an entry for its runtime, as far as they are used."""

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
    """Return the arguments of the server itself, in the order of its entry."""
    return tuple(word for argument in inputs for word in _words_of(argument, values))


def runtime_options(offer: PackageOffer, values: InputValues) -> RuntimeOptions:
    """The options that an entry may give to its runtime.

    Raises:
        InstallRefusedError: If it gives any other.
    """
    read = _READERS[offer.registry_type]
    runtime = PACKAGE_KINDS[offer.registry_type].runtime or "the bundle"
    chosen = RuntimeOptions()
    for word in _runtime_words(offer.runtime_arguments):
        options = read(word, chosen, offer, values)
        if options is None:
            raise InstallRefusedError(
                f"the entry gives {runtime} the option {quoted(str(word))},"
                " which is not allowed: it could run or read anything on this machine",
                hint="if you rely on its publisher, write an entry by hand: `discovery add`",
            )
        chosen = options
    return chosen


def _words_of(field: Input, values: InputValues) -> Iterator[str]:
    if field.kind == "positional":
        yield from values.texts(field)
        return
    flag = literal(field.name)
    if _is_bare_flag(field) and not values.has(field):
        yield flag
        return
    texts = values.texts(field)
    if field.format == "boolean" and not field.value:
        if texts == ("true",):
            yield flag
        return
    for text in texts:
        yield flag
        if text:
            yield text


def _is_bare_flag(field: Input) -> bool:
    """Return whether it is a flag without a value, so that there is nothing to ask for."""
    values = (field.value, field.default, field.placeholder, field.choices, field.variables)
    is_described = bool(field.description) or field.is_repeated or field.is_secret
    return not any(values) and not is_described and field.format == "string"


def _runtime_words(arguments: Iterable[Input]) -> Iterator[_Word]:
    """The options as their entry has them, in whichever of the usual ways they are written."""
    pending: _Word | None = None
    for argument in arguments:
        value = argument.value or argument.default
        if argument.kind == "named":
            flag, equals, rest = argument.name.partition("=")
            word = _Word(flag, rest if equals else value, argument)
        elif (value or argument.name).startswith("-"):  # a flag that is written as a word
            flag, equals, rest = (value or argument.name).partition("=")
            word = _Word(flag, rest if equals else "", argument)
        elif pending and pending.flag in _WITH_VALUE and not pending.value:
            pending = pending._replace(value=value, input=argument)
            continue
        else:
            word = _Word("", value, argument)
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
        case ("-e" | "--env", text, argument):
            return _with_variable(text, argument, chosen)
        case ("--mount", text, argument):
            return _with_mount(_MOUNT.fullmatch(text), argument, chosen, values)
        case ("-v" | "--volume", text, argument):
            return _with_mount(_VOLUME.fullmatch(text), argument, chosen, values)
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


_Reader = Callable[[_Word, RuntimeOptions, "PackageOffer", InputValues], "RuntimeOptions | None"]
_READERS: Mapping[str, _Reader] = {
    "npm": _npm,
    "pypi": _pypi,
    "oci": _oci,
    "nuget": _nuget,
    "mcpb": lambda *_: None,  # how a bundle is started stands in the bundle
}
_WITH_VALUE = {
    *("-p", "--package", "--from", "--python", "-e", "--env", "-m", "--memory", "--cpus"),
    *("--network", "--net", "--mount", "-v", "--volume"),
}


def _is_package(value: str, offer: PackageOffer, *separators: str) -> bool:
    """Return whether a value names the package of the offer, in the offer's version or in any."""
    spellings = {f"{offer.identifier}{separator}{offer.version}" for separator in separators}
    return value in {offer.identifier, *spellings, f"{offer.identifier}@latest"}


def _with_variable(text: str, field: Input, chosen: RuntimeOptions) -> RuntimeOptions | None:
    name, equals, value = text.partition("=")
    if not _VARIABLE.fullmatch(name):
        return None
    variable = replace(field, name=name, kind="environment", value=value, default="")
    if equals and not value:
        return None
    return replace(chosen, environment=(*chosen.environment, variable))


def _with_mount(
    mount: re.Match[str] | None, field: Input, chosen: RuntimeOptions, values: InputValues
) -> RuntimeOptions | None:
    """A folder that the owner alone names: the entry gives neither it nor a default."""
    if mount is None or not _DESTINATION.fullmatch(mount["place"]):
        return None
    name = mount["source"][1:-1]
    variable = next((v for v in field.variables if v.name == name), None)
    if variable is None or variable.value:
        return None
    is_required = field.is_required or variable.is_required
    folder_input = replace(variable, default="", format="filepath", is_required=is_required)
    folder = values.text(folder_input)
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
    return (
        None if not hint or hint in PACKAGE_KINDS[offer.registry_type].hints else offer.runtime_hint
    )


# The address and the headers of a remote server: its owner's values fill in what is left open, and
# change nothing else of it.

_LABELS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::\d{1,5})?")
_BASE = re.compile(r"\{[^{}]+\}(?:/.*)?")
_OUR_HEADERS = re.compile(
    r"host|content-.*|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|accept"
    r"|mcp-.*|proxy-.*|origin|referer|cookie|set-cookie|forwarded|x-forwarded-.*|via",
    re.IGNORECASE,
)
"""Headers that belong to the connection or the protocol, or stand for another origin."""


def address(offer: RemoteOffer, values: InputValues) -> str | None:
    """The address of a server; None while a value that it needs is missing.

    Raises:
        InvalidInputError: If a value would change more of it than its place.
        InstallRefusedError: If the address may not be reached.
    """
    variables = {variable.name: variable for variable in offer.variables}
    filled = {name: values.text(variable) for name, variable in variables.items()}
    pieces = _PLACES.split(offer.url)
    names = pieces[1::2]
    if any(name not in variables for name in names):
        raise InstallRefusedError(f"the address {quoted(offer.url)} has a place without a name")
    if any(filled[name] is None for name in names):
        return None
    texts = [literal(pieces[0])]
    for name, behind in zip(names, pieces[2::2], strict=True):
        value = filled[name] or ""
        before = "".join(texts)
        texts += (_fitting(value, variables[name], before, offer.url, values), literal(behind))
    url = joined(texts)
    if not _is_whole(offer.url) and not is_reference(url):
        _require_usable(url)
    return url


def headers(inputs: Iterable[Input], values: InputValues) -> dict[str, str]:
    """The headers of a server.

    Raises:
        InstallRefusedError: If the entry names one that it may not.
    """
    fields: dict[str, str] = {}
    for header in inputs:
        if not is_header_name(header.name) or _OUR_HEADERS.fullmatch(header.name):
            raise InstallRefusedError(
                f"the entry sets the header {quoted(header.name)}, which it may not"
            )
        if (text := values.text(header)) is not None:
            fields[header.name] = text
    return fields


def _fitting(text: str, variable: Input, before: str, url: str, values: InputValues) -> str:
    """A value as it stands in the address, behind what is `before` it; the same if it is stored."""
    stored = text.removeprefix("${secret:").removesuffix("}")
    value = values.to_store.get(stored, text) if is_reference(text) else text
    if is_reference(value):
        return value  # the owner's own, resolved when it is connected
    if _is_whole(url) and not before:
        _require_usable(value)
        return text
    _, scheme, rest = before.partition("://")
    if not scheme or not {"/", "?"}.intersection(rest):  # in the host
        if not _LABELS.fullmatch(value):
            raise InvalidInputError(f"{key_of(variable)} must be a part of the name of a host")
        return text
    if text == value:
        return quote(value, safe="")
    values.to_store[stored] = quote(value, safe="")
    return text


def _is_whole(url: str) -> bool:
    """Return whether the owner gives the address itself, to which the entry adds at most a path."""
    return _BASE.fullmatch(url) is not None


def _require_usable(url: str) -> None:
    """Check that an address is one of another machine, or one that its owner meant.

    Raises:
        InstallRefusedError: If it may not be reached.
    """
    if not is_secure_address(url) or urlsplit(url).username is not None:
        raise InstallRefusedError(
            f"the address {quoted(url)} is not used: only https:// is, without a login in it",
            hint="an address of your own can be added by hand: `discovery add`",
        )
    host = urlsplit(url).hostname or ""
    is_private = is_private_name(host) and not is_loopback(host)
    if is_private or not reachable_classes(host, is_private=False) & {"public", "loopback"}:
        raise InstallRefusedError(f"the address {quoted(url)} is one of a private network")
