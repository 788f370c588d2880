"""The keys that an owner may write under `views`."""

from __future__ import annotations

import re
from typing import Annotated, Any, get_type_hints

from pydantic import AfterValidator, Field
from pydantic.alias_generators import to_camel

from discovery_engine.config.model.field_types import custom_error, list_or_nothing
from discovery_engine.config.model.rules import (
    PromptRuleEntry,
    ResourceRuleEntry,
    ToolRuleEntry,
)
from discovery_engine.config.model.section import examples, field_type, section
from discovery_engine.config.serve_settings import ViewSettings, replaced_settings
from discovery_engine.config.settings import Settings
from discovery_engine.config.settings_section import InPlaceOf

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def _view_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        hint = "use letters, digits, `-` and `_`, and begin with a letter or a digit"
        raise custom_error(f"is no name for a view: {name!r}", hint=hint)
    return name


ViewName = Annotated[str, AfterValidator(_view_name)]


def _is_for_all_of_its_clients(view: Any) -> None:
    for name in ("rules", "resource_rules", "prompt_rules"):
        for at, rule in enumerate(getattr(view, name)):
            if rule.visible_to:
                hint = "`toolRules`, `resourceRules` and `promptRules` of the file can have it"
                key = f"{to_camel(name)}.{at}.visibleTo"
                raise custom_error("is of no use in a view", key=key, hint=hint)


def _replacement(setting: InPlaceOf) -> Any:
    """The type of the setting, or None, with its examples."""
    sections = type(getattr(Settings(), setting.section))
    hint = get_type_hints(sections, include_extras=True)[setting.field]
    path = f"{setting.section}.{to_camel(setting.field)}"
    text = f"As `{path}`, for the clients of this view."
    return Annotated[field_type(hint | None), Field(description=text, **examples(hint))]


ViewEntry = section(
    ViewSettings,
    name="ViewEntry",
    check=_is_for_all_of_its_clients,
    rules=Annotated[list[ToolRuleEntry], list_or_nothing],
    resource_rules=Annotated[list[ResourceRuleEntry], list_or_nothing],
    prompt_rules=Annotated[list[PromptRuleEntry], list_or_nothing],
    **{name: _replacement(setting) for name, setting in replaced_settings().items()},
)
