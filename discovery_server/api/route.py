"""A route of the API, and a request for it."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields
from starlette.requests import ClientDisconnect

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import DiscoveryError, PlanChangedError
from discovery_engine.tools.model import canonical_json, fingerprint
from discovery_server.access_token import TokenScope
from discovery_server.http.asgi import API_PATH

if TYPE_CHECKING:
    from starlette.requests import Request

    from discovery_engine.engine import Engine, ScopedEngine
    from discovery_engine.engine.transient_servers import TransientServers
    from discovery_engine.store.call_log.log_entry import Actor
    from discovery_server.access_tokens import AccessTokens
    from discovery_server.api.live_calls import LiveCalls
    from discovery_server.api.watched_resources import WatchedResources

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

Digest: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=200, description="`digest` of what was shown.")
]
Confirmation: TypeAlias = (
    Annotated[
        str,
        Meta(
            min_length=1,
            max_length=200,
            description="`digest` of what was shown; without it the plan is only shown.",
        ),
    ]
    | None
)

Name: TypeAlias = Annotated[str, Meta(max_length=500)]
Value: TypeAlias = Annotated[str, Meta(max_length=64 * 1024)]
Values: TypeAlias = Annotated[
    dict[Name, Value | list[Value]],
    Meta(description="Values by the names of its `inputs`; a list for one that is repeated."),
]
SecretValues: TypeAlias = Annotated[
    dict[Name, Value],
    Meta(description="Values to store encrypted, by the same names; never returned."),
]
ServerEntry: TypeAlias = Annotated[
    dict[str, Any], Meta(description="As in `servers` of `discovery.yaml`.")
]

_TEXTS = ("command", "url", "cwd")
"""The fields of an entry that must be text.

YAML may leave out quotes, so the configuration accepts a number in them, too.
"""

Asked = TypeVar("Asked", bound=Struct)


class RequestError(DiscoveryError):
    """A request that is refused before it reaches the engine."""

    code = "INVALID_REQUEST"

    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.facts: JSONObject = {}
        """The members that a subclass adds to the answer."""


class UnexpectedRequestError(RequestError):
    """A defect of this program ended a request."""

    code = "UNEXPECTED_ERROR"

    def __init__(self) -> None:
        hint = "the log of the gateway has the details; please report them"
        super().__init__(500, "an unexpected error", hint=hint)


class ScopeMissingError(RequestError):
    """The token of a request lacks a scope."""

    code = "SCOPE_MISSING"

    def __init__(self, scope: TokenScope) -> None:
        hint = f"`discovery token create --scope {scope}` makes one that does"
        super().__init__(403, f"this token has no scope {scope!r}", hint=hint)
        self.facts = {"needed": scope}


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A request without parameters."""


class EntryBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A body with the `entry` of a server, or with `changes` of one; checks their text fields."""

    def __post_init__(self) -> None:
        for place in ("entry", "changes"):
            members = getattr(self, place, {})
            for key in _TEXTS:
                is_removed = place == "changes" and members.get(key, "") is None
                if not isinstance(members.get(key, ""), str) and not is_removed:
                    text = f"field `{place}.{key}` must be text"
                    raise ValueError(text)


class ApiRequest(Struct, Generic[Asked], frozen=True):
    """An authorized request with valid parameters."""

    engine: ScopedEngine
    """The engine, limited to what the token may see."""
    owner: Engine
    """The whole engine; for routes that need the scope `admin`."""
    path: Mapping[str, str]
    """The parameters in the path, decoded."""
    asked: Asked
    """The parameters: the query of a GET or DELETE, or the body of a POST, PUT or PATCH."""
    scopes: frozenset[TokenScope]
    """The scopes of its token."""
    by: Actor
    """A person on the page, or a program."""
    user: str
    """The name of the user whose token it has."""
    calls: LiveCalls
    """The running calls that were made over the API."""
    watched: WatchedResources
    """The resources whose updates are asked for over the API."""
    transient: TransientServers
    """The servers for a trial."""
    tokens: AccessTokens
    """The tokens of clients."""

    @property
    def only_user(self) -> str | None:
        """The only user whose calls it may see; None for all, with the scope `admin`."""
        return None if "admin" in self.scopes else self.user

    def require_scope(self, scope: TokenScope) -> None:
        """Check that the token has a scope that its route does not require.

        Raises:
            ScopeMissingError: If the token does not have it.
        """
        if scope not in self.scopes:
            raise ScopeMissingError(scope)


class ApiRoute(Struct, frozen=True):
    """A route of the API, with the handler that answers it."""

    method: Method
    path: str
    """For instance `/servers/{server}`, below the address of the API; `{name:path}` takes `/`."""
    handler: Handler
    scope: TokenScope
    """The scope that the token of a request must have."""
    asked: type[Struct]
    answer: type[Struct] | None
    """None for any JSON object, such as a result as the server sent it."""

    @property
    def summary(self) -> str:
        """The effect of the route in one line, in the imperative."""
        return (self.handler.__doc__ or "").partition("\n")[0].rstrip(".")

    @property
    def has_body(self) -> bool:
        return self.method in ("POST", "PUT", "PATCH")

    @property
    def name(self) -> str:
        """An identifier that no other route has."""
        return self.handler.__name__


class Routes:
    """The routes of a module, in the order in which its functions declare them.

    @routes("GET", "/status", scope="read")
    async def status(request: ApiRequest[Nothing]) -> Status: ...

    The annotations of a function give the request and the answer; its docstring describes it.
    """

    def __init__(self) -> None:
        self.all: list[ApiRoute] = []

    def __call__(
        self, method: Method, path: str, *, scope: TokenScope = "admin"
    ) -> Callable[[Answering], Answering]:
        def declare(handler: Answering) -> Answering:
            hints = get_type_hints(handler)
            [asked] = get_args(hints["request"])
            answer = None if get_origin(hints["return"]) else hints["return"]
            self.all.append(ApiRoute(method, path, handler, scope, asked, answer))
            return handler

        return declare


Handler: TypeAlias = Callable[[ApiRequest[Any]], Awaitable["Struct | JSONObject"]]
Answering = TypeVar("Answering", bound=Handler)


# Plans are stateless: one request shows a plan, and the next confirms it by its digest.


def with_digest(form: JSONObject) -> JSONObject:
    """Return the form of a plan, with the digest by which a request confirms it."""
    return {**form, "digest": fingerprint(canonical_json(form))}


def require_shown(form: JSONObject, digest: str, subject: str) -> None:
    """Check that a plan, computed again, has the digest of the one that was shown.

    Raises:
        PlanChangedError: If it has another one; `subject` is what is done, for instance
            `installing 'files'`.
    """
    if digest != with_digest(form)["digest"]:
        raise PlanChangedError(subject)


def to_confirm(form: JSONObject, digest: str | None, subject: str) -> JSONObject | None:
    """Return the plan to show, with its digest; None if this very plan is confirmed.

    Raises:
        PlanChangedError: If another one is confirmed.
    """
    if digest is None:
        return with_digest(form)
    require_shown(form, digest, subject)
    return None


#     parameter `since` must be a number
#
# Messages are written from the types of the route: those of msgspec differ between its versions,
# and are for people who know it.

DESCRIPTION = f"{API_PATH}/openapi.json"

_LONGEST_BODY = 128 << 10  # bytes
_DEEPEST = 64  # levels of lists and maps; the arguments of real tools have fewer
_WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "text",
}
_KINDS: Mapping[type, str] = {
    bool: "boolean", dict: "object", float: "number", int: "integer", list: "array", str: "string"
}  # fmt: skip
_LIMITS = {
    "minimum": ">= {}",
    "maximum": "<= {}",
    "minLength": "of at least {} characters",
    "maxLength": "of at most {} characters",
    "minItems": "of at least {}",
    "maxItems": "of at most {}",
}


async def parameters(request: Request, route: ApiRoute) -> Struct:
    """Return the parameters of a request, converted to the type of its route.

    Raises:
        RequestError: If they are invalid, or the body is too large or not JSON.
    """
    if route.has_body:
        values = await _body(request)
        is_strict = True
    else:
        values, is_strict = _query(request, route.asked), False
    try:
        return msgspec.convert(values, route.asked, strict=is_strict)
    except msgspec.ValidationError as error:
        raise _mistake(route, values, error) from None


async def _body(request: Request) -> Any:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > _LONGEST_BODY:
                text = f"a body may have at most {_LONGEST_BODY:,} bytes"
                raise RequestError(413, text, hint="send less, or in several requests")
            parts.append(part)
    except ClientDisconnect:  # no client is left to read the answer
        raise RequestError(400, "the body is incomplete", hint="send it again") from None
    if not size:
        return {}
    if kind != "application/json":
        text = f"the body was sent as {kind!r}" if kind else "the kind of the body is not named"
        raise RequestError(415, text, hint="send JSON, with `Content-Type: application/json`")
    try:
        value = msgspec.json.decode(b"".join(parts))
    except (ValueError, RecursionError):
        hint = 'send a JSON object such as {"name": "value"}'
        raise RequestError(400, "the body is not JSON, or nests too deeply", hint=hint) from None
    if _is_deep(value):
        text = f"the body nests deeper than {_DEEPEST} lists and maps"
        raise RequestError(400, text, hint="send it flatter")
    return value


def _is_deep(value: Any) -> bool:
    """Return whether a value nests so deeply that code which looks into it could fail."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for node in level
            if isinstance(node, dict | list)
            for inner in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return any(isinstance(node, dict | list) for node in level)


def _query(request: Request, struct: type[Struct]) -> Mapping[str, Any]:
    """Return the parameters of the query; one that may be repeated is a list."""
    query = request.query_params
    many = _repeated(struct)
    parameters: dict[str, Any] = {}
    for name in query:
        values = query.getlist(name)
        if name not in many and len(values) > 1:
            text = f"the parameter {name!r} is there more than once"
            raise RequestError(400, text, hint="send it once")
        parameters[name] = values if name in many else values[0]
    return parameters


def _repeated(struct: type[Struct]) -> frozenset[str]:
    hints = get_type_hints(struct)
    return frozenset(name for name, hint in hints.items() if tuple in _origins(hint))


def _origins(hint: Any) -> set[Any]:
    if isinstance(hint, types.UnionType):
        return {origin for member in get_args(hint) for origin in _origins(member)}
    return {get_origin(hint)}


def _mistake(route: ApiRoute, text: Any, error: msgspec.ValidationError) -> RequestError:
    noun = "field" if route.has_body else "parameter"
    names = ", ".join(field.encode_name for field in fields(route.asked))
    listing = f"{noun}s: {names}" if names else f"it takes no {noun}s"
    hint = f"{listing}; GET {DESCRIPTION} describes {route.name}"
    return RequestError(422, _text(route, noun, text) or _own_words(error), hint=hint)


def _own_words(error: msgspec.ValidationError) -> str:
    """Return the message of a check of several fields, beginning in lower case."""
    text = str(error)
    return text[:1].lower() + text[1:]


def _text(route: ApiRoute, noun: str, value: Any) -> str:
    """Describe the first invalid field; empty if each field by itself is valid."""
    if not isinstance(value, dict):
        return f"the body must be an object, not {_kind(value)}"
    fields_by_name = {field.encode_name: field for field in fields(route.asked)}
    if unknown := next((name for name in value if name not in fields_by_name), None):
        return f"there is no {noun} `{unknown}`"
    for name, field in fields_by_name.items():
        if name not in value:
            if field.required:
                return f"{noun} `{name}` is missing"
            continue
        try:
            msgspec.convert(value[name], field.type, strict=route.has_body)
        except msgspec.ValidationError:
            words = _words_of(field.type, is_query=not route.has_body)
            # Every value of a query is text, so its type says nothing.
            kind = _kind(value[name])
            is_of_kind = not route.has_body or kind in words
            return f"{noun} `{name}` must be {words}" + ("" if is_of_kind else f", not {kind}")
    return ""


def _kind(value: Any) -> str:
    return _WORDS[_KINDS.get(type(value), "null")]


def _words_of(annotation: Any, *, is_query: bool) -> str:
    schema = msgspec.json.schema(annotation)
    definitions: Mapping[str, JSONObject] = schema.get("$defs", {})

    def words(part: JSONObject) -> str:
        if "$ref" in part:
            return words(definitions[part["$ref"].rpartition("/")[2]])
        if "anyOf" in part:
            kinds = (
                words(option) for option in part["anyOf"] if not (is_query and _is_null(option))
            )
            return " or ".join(kinds)
        if "enum" in part:
            return f"one of {', '.join(map(str, part['enum']))}"
        items = part.get("items")
        if items and is_query:  # it is repeated for each
            return words(items)
        limits = (text.format(part[key]) for key, text in _LIMITS.items() if key in part)
        text = " ".join([_WORDS.get(part.get("type", ""), "any value"), " and ".join(limits)])
        return text.strip() + (f", each of them {words(items)}" if items else "")

    return words(schema)


def _is_null(schema: JSONObject) -> bool:
    return schema.get("type") == "null"
