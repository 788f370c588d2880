"""The parts that the adapters share: a missing framework, media, parallel calls, and schemas."""

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
    """An adapter was imported, but its framework cannot be imported."""


def missing_framework(extra: str, error: ImportError) -> MissingFrameworkError:
    """Return the error for an adapter whose framework cannot be imported; `extra` is its extra."""
    return MissingFrameworkError(
        f"the adapter for {extra} cannot import its framework ({error});"
        f" install it with: {install_command(extra)}",
        name=error.name,
    )


# An API that refuses an image refuses every further request of the conversation, too. So the type
# comes from the first bytes of an image, not from its server.

PDF: Final = "application/pdf"

ImageType: TypeAlias = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


def image_type(part: MediaPart) -> ImageType | None:
    """Return the type of an image for a model, by its content; None for anything else."""
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
    """Return an image with the type of its content, or a PDF; None for anything else."""
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
    """Answer all calls of a model concurrently; the answers are in the order of the calls."""
    answers: dict[int, _Answer] = {}

    async def run(number: int, call: _Call) -> None:
        answers[number] = await answer(call)

    async with open_task_group() as tasks:
        for number, call in enumerate(calls):
            tasks.start_soon(run, number, call)
    return [answers[number] for number in sorted(answers)]


class CallProgress(Struct, frozen=True):
    call_id: str
    """The id of the call in the model's API."""
    tool: str
    """The name of the tool for the model."""
    progress: float
    total: float | None
    message: str | None


OnCallProgress: TypeAlias = Callable[[CallProgress], Awaitable[None]]


def progress_of(on_progress: OnCallProgress | None, call_id: str, tool: str) -> OnProgress | None:
    """Return the `on_progress` for `AgentTool.call`; None if nobody wants progress."""
    if on_progress is None:
        return None

    async def pass_on(progress: float, total: float | None, message: str | None) -> None:
        await on_progress(CallProgress(call_id, tool, progress, total, message))

    return pass_on


def open_model(name: str, schema: JSONObject) -> type[BaseModel]:
    """Create a pydantic model with the given JSON Schema that accepts any arguments.

    So a framework shows the schema unchanged, and only the engine checks the arguments: its errors
    tell the model what to do.
    """

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow", title=name)

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> JSONObject:
            return schema

    Arguments.__name__ = Arguments.__qualname__ = name
    return Arguments


# A strict schema requires all properties. SDKs make a schema strict by requiring optional arguments
# that the model had better omit. So only schemas that are already strict count as strict.

_DEPTH = 5  # levels of objects, the API's limit
_MEMBERS = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description"}
    | {"items", "enum", "const"}
)
_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})


def takes_strict(schema: JSONValue, depth: int = _DEPTH) -> bool:
    """Return whether a schema requires the same arguments and values in its strict form."""
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
