"""Programs that start packages, as they are on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.marketplace.package_managers.prerequisites import Prerequisite


def prerequisite_form(one: Prerequisite) -> JSONObject:
    return {
        "program": one.program,
        "path": one.path or None,
        "version": one.version,
        "is_usable": one.is_usable,
        "problem": one.problem,
        "hint": one.hint,
    }
