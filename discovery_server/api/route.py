"""A route of the API, and a request for it."""

from __future__ import annotations

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

from msgspec import Meta, Struct

from discovery_engine.errors import DiscoveryError, PlanChangedError
from discovery_engine.tools.model import canonical_json, fingerprint
from discovery_server.access_token import TokenScope

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import Engine, ScopedEngine
    from discovery_engine.engine.transient_servers import TransientServers
    from discovery_engine.store.call_log.log_entry import Actor
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
            description="`digest` of what was shown; without it nothing is done, and it is shown.",
        ),
    ]
    | None
)

Name: TypeAlias = Annotated[str, Meta(max_length=500)]
Value: TypeAlias = Annotated[str, Meta(max_length=64 * 1024)]
Values: TypeAlias = Annotated[
    dict[Name, Value | list[Value]],
    Meta(description="By the names that its `inputs` have; several for what is repeated."),
]
SecretValues: TypeAlias = Annotated[
    dict[Name, Value],
    Meta(description="The same of what is to be stored encrypted; it is never answered."),
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
    """A request that is refused before any verb of the engine is used."""

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
    """A token does not allow what is asked for."""

    code = "SCOPE_MISSING"

    def __init__(self, scope: TokenScope) -> None:
        hint = f"`discovery token create --scope {scope}` makes one that does"
        super().__init__(403, f"this token has no scope {scope!r}", hint=hint)
        self.facts = {"needed": scope}


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A request without parameters."""


class EntryBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A body with the `entry` of a server, or with `changes` of one, whose texts are texts."""

    def __post_init__(self) -> None:
        for place in ("entry", "changes"):
            members = getattr(self, place, {})
            for key in _TEXTS:
                is_removed = place == "changes" and members.get(key, "") is None
                if not isinstance(members.get(key, ""), str) and not is_removed:
                    text = f"field `{place}.{key}` must be text"
                    raise ValueError(text)


class ApiRequest(Struct, Generic[Asked], frozen=True):
    """A request that may be answered: its token allows it, and its parameters are valid."""

    engine: ScopedEngine
    """With what its token may see."""
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
    """Whose token it has."""
    calls: LiveCalls
    """The calls made over the API that run."""
    watched: WatchedResources
    """The resources whose updates are asked for over the API."""
    transient: TransientServers
    """The servers for a trial."""

    @property
    def only_user(self) -> str | None:
        """Whose calls it is about: its user's alone, unless it may do everything."""
        return None if "admin" in self.scopes else self.user

    def require_scope(self, scope: TokenScope) -> None:
        """Refuse what needs more than its route does.

        Raises:
            ScopeMissingError: If its token does not allow it.
        """
        if scope not in self.scopes:
            raise ScopeMissingError(scope)


class ApiRoute(Struct, frozen=True):
    """One route: `Handler` answers it."""

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

    The types of a function are those of its request and answer, and its docstring describes it.
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


# Plans: nothing of one is kept between the request that shows it and the one that has its digest.


def with_digest(form: JSONObject) -> JSONObject:
    """Return the form of a plan with its digest, which the request that confirms it has."""
    return {**form, "digest": fingerprint(canonical_json(form))}


def require_shown(form: JSONObject, digest: str, subject: str) -> None:
    """Check that a plan, made anew, has the digest of the one that was shown.

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
