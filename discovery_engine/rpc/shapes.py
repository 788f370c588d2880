"""The shapes that MCP gives to results and definitions, and in what its revisions differ.

    shapes_of("2025-06-18")["tools/call"]     CallToolResult with the blocks of that revision

A member that a revision does not know yet has the shape of the first one that knows it: clients
read all revisions with one set of types. Members that are not named here may have any value.

Source: the schemas of the revisions 2024-11-05 to 2026-07-28. Where the SDKs' clients are stricter,
so are these shapes: base64 is decodable, a URI can be parsed, a time has a zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import new_class
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field

from discovery_engine.rpc.protocol import MODERN_VERSIONS, URI

T = TypeVar("T")
BlockT = TypeVar("BlockT")
StructuredT = TypeVar("StructuredT")
SchemaT = TypeVar("SchemaT")

Maybe: TypeAlias = T | UnsetType
"""A member that may be absent; null is no value of it."""
Shape: TypeAlias = Any
"""A type that msgspec converts to."""

MOST_VALUES = 100
"""The most values that a completion may have."""

_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$"

Uri: TypeAlias = Annotated[str, Meta(pattern=URI)]
Name: TypeAlias = Annotated[str, Meta(pattern=r"^(?!discovery/)")]
"""The name of a member of a server's `_meta`; only this program uses the prefix `discovery/`."""


class Icon(Struct, rename="camel", kw_only=True):
    src: str
    mime_type: Maybe[str] = UNSET
    sizes: Maybe[list[str]] = UNSET
    theme: Maybe[Literal["light", "dark"]] = UNSET


class Annotations(Struct, rename="camel", kw_only=True):
    audience: Maybe[list[Literal["user", "assistant"]]] = UNSET
    priority: Maybe[Annotated[float, Meta(ge=0, le=1)]] = UNSET
    last_modified: Maybe[Annotated[str, Meta(pattern=_TIME)]] = UNSET


class _Object(Struct, rename="camel", kw_only=True):
    meta: Maybe[dict[Name, Any]] = field(name="_meta", default=UNSET)


class _Described(_Object, rename="camel", kw_only=True):
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    icons: Maybe[list[Icon]] = UNSET


class _Block(_Object, rename="camel", kw_only=True):
    annotations: Maybe[Annotations] = UNSET


class TextContent(_Block, tag_field="type", tag="text", rename="camel", kw_only=True):
    text: str


class ImageContent(_Block, tag_field="type", tag="image", rename="camel", kw_only=True):
    data: bytes
    mime_type: str


class AudioContent(_Block, tag_field="type", tag="audio", rename="camel", kw_only=True):
    data: bytes
    mime_type: str


class ResourceLink(_Described, tag_field="type", tag="resource_link", rename="camel", kw_only=True):
    uri: Uri
    name: str
    mime_type: Maybe[str] = UNSET
    size: Maybe[int] = UNSET
    annotations: Maybe[Annotations] = UNSET


class ResourceContents(_Object, rename="camel", kw_only=True):
    """The contents of a resource, text or binary data: `text` or `blob` is present."""

    uri: Uri
    mime_type: Maybe[str] = UNSET
    text: Maybe[str] = UNSET
    blob: Maybe[bytes] = UNSET

    def __post_init__(self) -> None:
        if self.text is UNSET and self.blob is UNSET:
            raise ValueError("neither text nor blob")


class EmbeddedResource(_Block, tag_field="type", tag="resource", rename="camel", kw_only=True):
    resource: ResourceContents


_First: TypeAlias = TextContent | ImageContent | EmbeddedResource
_WithAudio: TypeAlias = _First | AudioContent
_WithLinks: TypeAlias = _WithAudio | ResourceLink
BLOCKS: Mapping[str, Shape] = {
    "2024-11-05": _First,
    "2025-03-26": _WithAudio,
    "2025-06-18": _WithLinks,
    "2025-11-25": _WithLinks,
    "2026-07-28": _WithLinks,
}
"""The blocks of content by revision."""


class Result(Struct, rename="camel", kw_only=True):
    result_type: Maybe[Literal["complete"]] = UNSET
    meta: Maybe[dict[str, Any]] = field(name="_meta", default=UNSET)


class CallToolResult(Result, Generic[BlockT, StructuredT], rename="camel", kw_only=True):
    content: list[BlockT]
    structured_content: Maybe[StructuredT] = UNSET
    is_error: Maybe[bool] = UNSET


class PromptMessage(Struct, Generic[BlockT], rename="camel", kw_only=True):
    role: Literal["user", "assistant"]
    content: BlockT


class GetPromptResult(Result, Generic[BlockT], rename="camel", kw_only=True):
    messages: list[PromptMessage[BlockT]]
    description: Maybe[str] = UNSET


class ReadResourceResult(Result, rename="camel", kw_only=True):
    contents: list[ResourceContents]
    ttl_ms: Maybe[Annotated[int, Meta(ge=0)]] = UNSET
    cache_scope: Maybe[Literal["public", "private"]] = UNSET


class CompletionValues(Struct, rename="camel", kw_only=True):
    values: Annotated[list[str], Meta(max_length=MOST_VALUES)]
    total: Maybe[int] = UNSET
    has_more: Maybe[bool] = UNSET


class CompleteResult(Result, rename="camel", kw_only=True):
    completion: CompletionValues


class Resource(_Described, rename="camel", kw_only=True):
    uri: str
    name: str
    mime_type: Maybe[str] = UNSET
    size: Maybe[int] = UNSET
    annotations: Maybe[Annotations] = UNSET


class ResourceTemplate(_Described, rename="camel", kw_only=True):
    uri_template: str
    name: str
    mime_type: Maybe[str] = UNSET
    annotations: Maybe[Annotations] = UNSET


class PromptArgument(Struct, rename="camel", kw_only=True):
    name: str
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    required: Maybe[bool] = UNSET


class Prompt(_Described, rename="camel", kw_only=True):
    name: str
    arguments: Maybe[list[PromptArgument]] = UNSET


class Schema(Struct, kw_only=True):
    """The JSON Schema of any value."""

    dialect: Maybe[str] = field(name="$schema", default=UNSET)


class PropertySchema(Schema, kw_only=True):
    """The schema of one argument, or of one member of a structured result."""


class ObjectSchema(Schema, kw_only=True):
    type: Literal["object"]
    properties: Maybe[dict[str, PropertySchema]] = UNSET
    required: Maybe[list[str]] = UNSET


class ArgumentsSchema(ObjectSchema, kw_only=True):
    """Without which there is no tool."""


class ToolAnnotations(Struct, rename="camel", kw_only=True):
    title: Maybe[str] = UNSET
    read_only_hint: Maybe[bool] = UNSET
    destructive_hint: Maybe[bool] = UNSET
    idempotent_hint: Maybe[bool] = UNSET
    open_world_hint: Maybe[bool] = UNSET


class ToolExecution(Struct, rename="camel", kw_only=True):
    task_support: Maybe[Literal["forbidden", "optional", "required"]] = UNSET


class ToolDefinition(_Described, Generic[SchemaT], rename="camel", kw_only=True):
    name: str
    input_schema: ArgumentsSchema
    output_schema: Maybe[SchemaT] = UNSET
    annotations: Maybe[ToolAnnotations] = UNSET
    execution: Maybe[ToolExecution] = UNSET


class ListToolsResult(Result, Generic[SchemaT], rename="camel", kw_only=True):
    tools: list[ToolDefinition[SchemaT]]


class ListResourcesResult(Result, rename="camel", kw_only=True):
    resources: list[Resource]


class ListResourceTemplatesResult(Result, rename="camel", kw_only=True):
    resource_templates: list[ResourceTemplate]


class ListPromptsResult(Result, rename="camel", kw_only=True):
    prompts: list[Prompt]


_Anything: TypeAlias = dict[str, Any] | list[Any] | str | bool | int | float


@cache
def shapes_of(version: str) -> Mapping[str, Shape]:
    """The shape of a result by its method, in a revision of the protocol."""
    blocks, is_modern = BLOCKS[version], version in MODERN_VERSIONS
    structured: Shape = _Anything if is_modern else dict[str, Any]
    output_schema: Shape = Schema if is_modern else ObjectSchema
    return {
        "tools/call": _class_of(CallToolResult, blocks, structured),
        "tools/list": _class_of(ListToolsResult, output_schema),
        "resources/list": ListResourcesResult,
        "resources/templates/list": ListResourceTemplatesResult,
        "resources/read": ReadResourceResult,
        "prompts/list": ListPromptsResult,
        "prompts/get": _class_of(GetPromptResult, blocks),
        "completion/complete": CompleteResult,
    }


def _class_of(generic: Any, *of: Shape) -> Shape:
    """A class of its own: msgspec converts to it in a fifth of the time."""
    return new_class(generic.__name__, (generic[of],))
