"""The core of the adapters: a missing framework, media, calls side by side, and schemas."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.tasks import open_task_group
from discovery_engine.agent.content import MediaPart
from discovery_engine.errors.extras import install_command

if TYPE_CHECKING:
    from discovery_engine.agent.content import ResultPart
    from discovery_engine.agent.meta_arguments import OnProgress


class MissingFrameworkError(ImportError):
    """An adapter was imported, and its framework cannot be."""


def missing_framework(extra: str, error: ImportError) -> MissingFrameworkError:
    """The error for the adapter of an extra, whose import of its framework failed."""
    return MissingFrameworkError(
        f"the adapter for {extra} cannot import its framework ({error});"
        f" install it with: {install_command(extra)}",
        name=error.name,
    )


# A conversation with an image that an API refuses is refused with every further request. So the
# beginning of an image decides, not what its server says it is.

PDF: Final = "application/pdf"

ImageType: TypeAlias = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


def image_type(part: MediaPart) -> ImageType | None:
    """The type of an image that can be shown to a model; None for everything else."""
    if part.kind != "image":
        return None
    data = part.content
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def shown_media(part: ResultPart) -> MediaPart | None:
    """An image, with the type that it has by its content, or a PDF; None for everything else."""
    if not isinstance(part, MediaPart):
        return None
    if media_type := image_type(part):
        return replace(part, media_type=media_type)
    return part if part.media_type == PDF else None


CUT_OFF: Final = (
    "CALL_CUT_OFF: the answer ended in the middle of this call; nothing was done. Call it again."
)
_Call = TypeVar("_Call")
_Answer = TypeVar("_Answer")


async def side_by_side(
    answer: Callable[[_Call], Awaitable[_Answer]], calls: Iterable[_Call]
) -> list[_Answer]:
    """Answer all calls of a model at once; the answers are in the order of the calls."""
    answers: dict[int, _Answer] = {}

    async def run(number: int, call: _Call) -> None:
        answers[number] = await answer(call)

    async with open_task_group() as tasks:
        for number, call in enumerate(calls):
            tasks.start_soon(run, number, call)
    return [answers[number] for number in sorted(answers)]


class CallProgress(Struct, frozen=True):
    call_id: str
    """The id that the model's API gave the call."""
    tool: str
    """The name by which the model called the tool."""
    progress: float
    total: float | None
    message: str | None


OnCallProgress: TypeAlias = Callable[[CallProgress], Awaitable[None]]


def progress_of(on_progress: OnCallProgress | None, call_id: str, tool: str) -> OnProgress | None:
    """Return the `on_progress` for `AgentTool.call`; None asks the tool for no progress."""
    if on_progress is None:
        return None

    async def pass_on(progress: float, total: float | None, message: str | None) -> None:
        await on_progress(CallProgress(call_id, tool, progress, total, message))

    return pass_on


def open_model(name: str, schema: JSONObject) -> type[BaseModel]:
    """A model that has the given JSON Schema, and takes all arguments as they are.

    So a framework shows the schema unchanged, and the engine alone checks the arguments: its
    errors say what a model has to do.
    """

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow", title=name)

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> JSONObject:
            return schema

    Arguments.__name__ = Arguments.__qualname__ = name
    return Arguments


# A strict schema has all properties required. A schema that is made strict, as SDKs do it, asks the
# model for arguments that it had better leave out. So only a schema that is strict as it stands is
# taken as strict.

_DEPTH = 5  # levels of objects, which is what the API takes
_MEMBERS = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description"}
    | {"items", "enum", "const"}
)
_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})


def takes_strict(schema: JSONValue, depth: int = _DEPTH) -> bool:
    """Return whether the strict form of a schema asks for the same arguments and values."""
    if not isinstance(schema, dict) or not depth or schema.keys() - _MEMBERS:
        return False
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return (
            schema.get("additionalProperties", False) is False
            and properties.keys() == set(schema.get("required", ()))
            and all(takes_strict(member, depth - 1) for member in properties.values())
        )
    if kind == "array":
        return takes_strict(schema.get("items"), depth - 1)
    return isinstance(kind, str) and kind in _TYPES
