"""Notices: what is missing from an answer, or hidden, and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.view.notices import Notice


def notice_forms(notices: Iterable[Notice]) -> list[JSONObject]:
    return [
        {
            "code": notice.code,
            "kind": notice.kind,
            "message": notice.to_owner or notice.message,
            "server": notice.server,
        }
        for notice in notices
    ]
