"""Validates the inputs with which a server is started: from its owner and from its entry.

Texts of the marketplace are literal: `${…}` in them is escaped, so that an entry cannot refer to
variables, files or secrets of the owner. Values of the owner may be references. A secret is stored
under `SERVER/NAME`, and the entry contains `${secret:SERVER/NAME}`.
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
    references_in,
    split,
)
from discovery_engine.secrets.secret_names import NameKind
from discovery_engine.upstream.identity import selects_code

if TYPE_CHECKING:
    from discovery_engine.marketplace.entry import PackageOffer, RemoteOffer

GivenValues: TypeAlias = Mapping[str, str | Sequence[str]]
"""The owner's values by the keys of inputs; several for a repeated argument."""

_PLACES = re.compile(r"\{([^{}]{1,128})\}")
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # tabs are allowed in arguments
_UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_TRUE = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class AskedInput(Struct, frozen=True):
    """An input for which the owner may give a value."""

    key: str
    """The key in `--with KEY=VALUE`."""
    input: Input
    is_secret: bool
    is_given: bool = False
    """True if the owner has given a value, now or for an earlier version."""
    stored_as: str = ""
    """The name under which a secret is stored; empty for any other value."""

    @property
    def is_missing(self) -> bool:
        return self.input.is_required and not self.is_given and not self.input.default


class InputValues:
    """Resolves the inputs of one offer, and records them in `asked`."""

    def __init__(
        self,
        server: str,
        values: GivenValues,
        *,
        secrets: GivenValues = MappingProxyType({}),
        earlier: GivenValues = MappingProxyType({}),
        stored: Collection[str] = frozenset(),
    ) -> None:
        """Make the values for one server.

        Args:
            server: The name of the server.
            values: The values of the owner.
            secrets: More values, which are stored as secrets even if the publisher does not declare
                them so. They are literal, not references.
            earlier: The values for the previous version. Those of inputs that no longer exist are
                dropped.
            stored: The names of secrets that are already stored for this server: `SERVER/NAME`.
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
        """The values of secrets by the names under which they must be stored."""
        self.paths: list[str] = []
        """The existing files and folders among the values, which the server will use."""

    def texts(self, field: Input) -> tuple[str, ...]:
        """Return the values of an input for the entry; empty if it has none.

        Raises:
            InvalidInputError: If a value of the owner is invalid.
            InstallRefusedError: If a value of the publisher is invalid.
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
        """Return the validated values of the owner for an input.

        Raises:
            InvalidInputError: If a value is invalid.
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
        """Return the first value of an input for the entry; None if it has none."""
        return next(iter(self.texts(field)), None)

    @property
    def plain(self) -> dict[str, tuple[str, ...]]:
        """The values of the owner that are not secret, including references to secrets."""
        return {
            key: values
            for key, values in self._given.items()
            if (offered_input := self.asked.get(key))
            and key not in self._secrets
            and (not offered_input.is_secret or all(map(is_reference, values)))
        }

    def undeclared(self) -> tuple[Input, ...]:
        """Return the owner's values as variables, for a publisher that declares no input."""
        stored = (name.rpartition("/")[2] for name in self._stored)
        names = dict.fromkeys((*self._given, *stored))
        return tuple(Input(name, "environment") for name in names if _NAME.fullmatch(name))

    def require_known(self) -> None:
        """Check that every new value belongs to an input.

        Raises:
            InvalidInputError: For the first value that does not.
        """
        for key in self._new:
            if key not in self.asked:
                names = tuple(self.asked)
                asks = f"it asks for {', '.join(names)}" if names else "it asks for nothing"
                hint = did_you_mean(key, names, otherwise=asks)
                raise InvalidInputError(f"the server takes no {_shown(key)}", hint=hint)

    def _filled(self, field: Input) -> tuple[str, ...]:
        """Return the publisher's value with its variables filled in; empty if one is missing."""
        variables = {variable.name: variable for variable in field.variables}
        filled = {name: self.text(variable) for name, variable in variables.items()}
        if any(filled[name] is None and variables[name].is_required for name in filled):
            return ()
        if filled and not any(filled.values()):
            return ()  # an optional value for which nothing was given
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
        """Yield references to secrets, and add values that are not references to `to_store`."""
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
    """Return the key of an input in `--with KEY=VALUE`: for a flag, its name without dashes."""
    return visible(field.name).strip().lstrip("-") or "argument"


def is_secret_input(field: Input) -> bool:
    """Return whether an input is secret according to its publisher or by its name."""
    return field.is_secret or NameKind.of(key_of(field)) is NameKind.SECRET


def literal(text: str) -> str:
    """Escape a text so that nothing in it is a reference."""
    return text.replace("${", "$${")


def joined(texts: Iterable[str]) -> str:
    """Concatenate texts of an entry without creating new references.

    A plain concatenation of the literals `$` and `{HOME}` would be a reference.

    Raises:
        InstallRefusedError: If a dollar sign precedes a reference, which has no notation.
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
    """Return whether a text of the owner contains a reference."""
    return bool(references_in(text))


def checked_values(
    field: Input, key: str, values: Sequence[str], *, may_refer: bool = True
) -> list[str]:
    """Return the values of the owner for an input in the form that the server expects.

    Raises:
        InvalidInputError: If a value is invalid, or there are several for an input that is not
            repeated.
    """
    if len(values) > 1 and not field.is_repeated:
        raise InvalidInputError(f"{_shown(key)} takes one value, not {len(values)}")
    return [checked_value(field, key, text, may_refer=may_refer) for text in values]


def checked_value(field: Input, key: str, value: str, *, may_refer: bool = True) -> str:
    """Return a value in the form that the server expects; a text with references is unchanged.

    Raises:
        InvalidInputError: If it is not one of the choices, not of the format, contains a control
            character, or has a malformed reference.
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
    """Return a value of the publisher in the form that the server expects.

    Raises:
        InstallRefusedError: If it contradicts the publisher's own declaration.
    """
    try:
        return checked_value(field, key, value, may_refer=False)
    except InvalidInputError as error:
        raise InstallRefusedError(f"the entry is not usable: its value of {error}") from error


def _is_path(text: str) -> bool:
    """Return whether a value is the absolute path of an existing file or folder, except `/`."""
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


# Environment variables of a server.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_NEVER = re.compile(
    r"(LD|DYLD|DISCOVERY|DOCKER|DOTNET|BASH|MALLOC)_.*|PYTHON.*|NODE_(?!ENV$).*|PATH|PATHEXT"
    r"|HOME|SHELL|TMP|TEMP|TMPDIR|USERPROFILE|COMSPEC|SYSTEMROOT|XDG_.*|IFS|ENV|PROMPT_COMMAND"
    r"|(RUBY|PERL|PERL5)(OPT|LIB|SHELL)|_?JAVA_(TOOL_)?OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH"
    r"|GIT_(SSH|EXEC|CONFIG|ASKPASS|PAGER|EDITOR|TEMPLATE|EXTERNAL|PROXY).*|SSH_ASKPASS|EDITOR"
    r"|PAGER|VISUAL|BROWSER|LESSOPEN|NPM_.*|UV_.*|PIP_.*|VIRTUAL_ENV|CONDA_.*",
    re.IGNORECASE,
)
"""Names that determine what is executed, loaded or read; refused with any value."""
_OWNERS_ALONE = re.compile(
    r".*_PROXY|SSL_.*|CURL_.*|REQUESTS_CA_BUNDLE|AWS_CA_BUNDLE|GRPC_.*", re.IGNORECASE
)
"""Names that determine network peers; only the owner may set a value."""


class ServerEnvironment(NamedTuple):
    """The environment variables of an entry."""

    variables: dict[str, str]
    warnings: tuple[str, ...]
    """One warning for each variable that was left out."""


def environment(inputs: Iterable[Input], values: InputValues) -> ServerEnvironment:
    """Return the variables of a server; optional variables that are refused are left out.

    Raises:
        InstallRefusedError: If the entry sets or requires a refused variable, or names an invalid
            one.
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


# Arguments after the package are passed to the server. Options before it belong to the runtime, and
# could mount the disk or run a shell, so only a short list of them is allowed.

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
    """The accepted options of an entry for its runtime."""

    options: tuple[str, ...] = ()
    executable: str = ""
    """The program of the package to start; empty for the default one."""
    environment: tuple[Input, ...] = ()
    """The environment variables that options set."""
    warnings: tuple[str, ...] = ()


class _Word(NamedTuple):
    """A flag with its value, or a positional argument without a flag."""

    flag: str
    value: str
    input: Input

    def __str__(self) -> str:
        return " ".join(filter(None, (self.flag, self.value)))


def server_arguments(inputs: Iterable[Input], values: InputValues) -> tuple[str, ...]:
    """Return the arguments of the server in the order of the entry."""
    return tuple(word for argument in inputs for word in _words_of(argument, values))


def runtime_options(offer: PackageOffer, values: InputValues) -> RuntimeOptions:
    """Return the options of an entry for its runtime.

    Raises:
        InstallRefusedError: If an option is not allowed.
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
    """Return whether an argument is a flag that takes no value, so that no input is needed."""
    values = (field.value, field.default, field.placeholder, field.choices, field.variables)
    is_described = bool(field.description) or field.is_repeated or field.is_secret
    return not any(values) and not is_described and field.format == "string"


def _runtime_words(arguments: Iterable[Input]) -> Iterator[_Word]:
    """Split runtime arguments into flags with values, in any of the usual notations."""
    pending: _Word | None = None
    for argument in arguments:
        value = argument.value or argument.default
        if argument.kind == "named":
            flag, equals, rest = argument.name.partition("=")
            word = _Word(flag, rest if equals else value, argument)
        elif (value or argument.name).startswith("-"):  # a flag written as a positional argument
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
            return chosen  # `-y` is always passed
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
            return chosen  # always passed
        case ("-e" | "--env", text, argument):
            return _with_variable(text, argument, chosen)
        case ("--mount", text, argument):
            return _with_mount(_MOUNT.fullmatch(text), argument, chosen, values)
        case ("-v" | "--volume", text, argument):
            return _with_mount(_VOLUME.fullmatch(text), argument, chosen, values)
    restriction = _restriction(word)
    return replace(chosen, options=(*chosen.options, *restriction)) if restriction else None


def _restriction(word: _Word) -> tuple[str, ...]:
    """Return an option that restricts a container; empty if it is any other option."""
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
    "mcpb": lambda *_: None,  # a bundle contains its own command
}
_WITH_VALUE = {
    *("-p", "--package", "--from", "--python", "-e", "--env", "-m", "--memory", "--cpus"),
    *("--network", "--net", "--mount", "-v", "--volume"),
}


def _is_package(value: str, offer: PackageOffer, *separators: str) -> bool:
    """Return whether a value names the offered package, without version, in its or `latest`."""
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
    """Add a bind mount whose source the owner enters; None if the entry sets the source itself.

    A default of the entry for the source is ignored.
    """
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
    """Return the runtime hint of an offer if it does not suit the package type; None otherwise."""
    hint = offer.runtime_hint.strip().lower()
    return (
        None if not hint or hint in PACKAGE_KINDS[offer.registry_type].hints else offer.runtime_hint
    )


# The URL and the headers of a remote server. Values of the owner replace the placeholders and can
# change no other part of the URL.

_LABELS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::\d{1,5})?")
_BASE = re.compile(r"\{[^{}]+\}(?:/.*)?")
_OUR_HEADERS = re.compile(
    r"host|content-.*|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|accept"
    r"|mcp-.*|proxy-.*|origin|referer|cookie|set-cookie|forwarded|x-forwarded-.*|via",
    re.IGNORECASE,
)
"""Headers of the connection or the protocol, or that impersonate another origin."""


def address(offer: RemoteOffer, values: InputValues) -> str | None:
    """Return the URL of a server; None while a value is missing.

    Raises:
        InvalidInputError: If a value would change more of the URL than its placeholder.
        InstallRefusedError: If the URL is not allowed, or has a placeholder without a variable.
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
    """Return the headers of a server.

    Raises:
        InstallRefusedError: If the entry names a header that is not allowed.
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
    """Return a value for the part of the URL after `before`; secrets are encoded in `to_store`.

    Raises:
        InvalidInputError: If a value in the host is not part of a host name.
        InstallRefusedError: If the value is the base URL and not allowed.
    """
    stored = text.removeprefix("${secret:").removesuffix("}")
    value = values.to_store.get(stored, text) if is_reference(text) else text
    if is_reference(value):
        return value  # a reference of the owner, resolved when connecting
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
    """Return whether the owner enters the base URL, to which the entry adds at most a path."""
    return _BASE.fullmatch(url) is not None


def _require_usable(url: str) -> None:
    """Check that a URL is encrypted or of this machine, and not of a private network.

    Raises:
        InstallRefusedError: If it is not allowed, or contains a login.
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
