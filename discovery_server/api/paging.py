"""Lists in pages: a cursor names the last item of a page, so that changes repeat or skip none."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Annotated, TypeAlias, TypeVar

from msgspec import Meta, Struct

from discovery_server.api.route import RequestError

MOST = 500
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=MOST, description="The most items of a page.")]
Cursor: TypeAlias = Annotated[
    str, Meta(max_length=2048, description="`next_cursor` of the page before; empty for the first.")
]

Item = TypeVar("Item")


class PageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The page of a list that is requested."""

    cursor: Cursor = ""
    limit: Limit = 100


class InvalidCursorError(RequestError):
    """A cursor that no answer of this list had."""

    def __init__(self) -> None:
        hint = "pass it as it was returned, or leave it out for the first page"
        super().__init__(
            422, "parameter `cursor` must be the `next_cursor` of a page of this list", hint=hint
        )


def page(
    items: Iterable[Item], key: Callable[[Item], tuple[str, ...]], cursor: str, limit: int
) -> tuple[list[Item], str | None]:
    """The items of a page, and the cursor of the next one; None behind the last.

    Args:
        items: In the order of their keys.
        key: What identifies an item.
        cursor: Where the page begins; empty for the first.
        limit: The most items.

    Raises:
        InvalidCursorError: If `cursor` is none.
    """
    after = _key_in(cursor) if cursor else ()
    rest = (item for item in items if not after or key(item) > after)
    batch = list(islice(rest, limit + 1))
    if len(batch) <= limit:
        return batch, None
    return batch[:limit], _cursor_of(key(batch[limit - 1]))


def _cursor_of(key: tuple[str, ...]) -> str:
    return urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def _key_in(cursor: str) -> tuple[str, ...]:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        key = json.loads(urlsafe_b64decode(padded))
    except (ValueError, RecursionError):
        raise InvalidCursorError from None
    if not isinstance(key, list) or not all(isinstance(part, str) for part in key) or not key:
        raise InvalidCursorError
    return tuple(key)
