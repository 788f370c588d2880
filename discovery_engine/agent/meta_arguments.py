"""The arguments of a meta-tool, as a model wrote them.

Reading is lenient where the meaning is plain (`"5"` for 5, one tag for a list of one, an object as
JSON text, `max_tokens` for `maxTokens`); any other mistake is answered with the signature. An
unknown name is an error: most often it is an argument of the upstream tool, one level too high.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from discovery_engine import limits
from discovery_engine._util.json import JSONObject, JSONValue, parse_json
from discovery_engine._util.suggestions import nearest
from discovery_engine.errors import DiscoveryError

_NAMES = 32  # arguments; more than the spellings of all arguments of a meta-tool
_SHOWN = 40  # characters of a value that is refused
_DIGITS = 18  # of a number in quotes; Python refuses thousands of them


class MetaArgumentsError(DiscoveryError):
    """A meta-tool was called with arguments that it does not take."""

    code = "VALIDATION_ERROR"

    def __init__(self, mistake: str, signature: str) -> None:
        super().__init__(mistake, hint=f"it takes {signature}")


class MetaArguments:
    def __init__(self, given: JSONObject, schema: JSONObject, tool: str) -> None:
        """Raises `MetaArgumentsError` if something is given that `schema` does not name."""
        self._properties: Mapping[str, JSONValue] = schema["properties"]
        self._required = schema.get("required", [])
        self._tool = tool
        self._given: JSONObject = {}
        limits.require_names(f"argument of {tool}", given, most=_NAMES)
        for name, value in given.items():
            known = self._known(name)
            if known in self._given:
                raise self._error(f"{known} is given twice")
            self._given[known] = value

    def optional_text(self, name: str) -> str | None:
        """A text; None if it is missing or blank."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._error(f"{name} must be a string, not {_shown(value)}")
        return value.strip() or None

    def optional_name(self, name: str) -> str | None:
        """The name of a server or a tool; None if it is missing or blank.

        Raises `InputTooLongError` if it is longer than any.
        """
        value = self.optional_text(name)
        limits.require_name(name, value)
        return value

    def text(self, name: str) -> str:
        """A required text; all there are are names, as `optional_name` takes them."""
        value = self.optional_name(name)
        if value is None:
            raise self.missing(name)
        return value

    def called_tool(self) -> tuple[str | None, str]:
        """The server, if it is named apart, and the tool that is to be called."""
        return self.optional_name("server"), self.optional_name("call_as") or self.text("tool")

    def optional_count(self, name: str) -> int | None:
        """A whole number from the schema's `minimum`, or from 1."""
        value, least = self._given.get(name), self._properties[name].get("minimum", 1)
        if value is None:
            return None
        if isinstance(value, str) and len(value) <= _DIGITS and value.strip().isdecimal():
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self._error(f"{name} must be a whole number from {least}")
        return value

    def flag(self, name: str) -> bool:
        """True or false; false if it is missing."""
        value = self._given.get(name)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            value = value.lower() == "true"
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self._error(f"{name} must be true or false")

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; one text is a list of one."""
        value = self._given.get(name)
        if value is None:
            return ()
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list):
            raise self._error(f"{name} must be a list of strings")
        most = self._properties[name].get("maxItems", limits.TAGS)
        if len(values) > most:
            raise self._error(f"{name} takes at most {most}, not {len(values):,}")
        if not all(isinstance(v, str) for v in values):
            raise self._error(f"{name} must be a list of strings")
        return tuple(values)

    def value(self, name: str) -> JSONValue:
        """Any JSON, perhaps as JSON text; None if it is missing."""
        value = self._given.get(name)
        return _parsed(value) if isinstance(value, str) else value

    def mapping(self, name: str) -> JSONObject:
        """An object; empty if it is missing."""
        value = self._given.get(name)
        if isinstance(value, str):
            value = _parsed(value)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._error(f"{name} must be an object")
        return value

    def mistake(self, text: str) -> MetaArgumentsError:
        """The error that a value is wrong."""
        return self._error(text)

    def missing(self, *names: str) -> MetaArgumentsError:
        """The error that one of `names` is required."""
        return self._error(f"{' or '.join(names)} is required")

    def _known(self, name: str) -> str:
        """The schema's name of an argument, in any spelling."""
        if name in self._properties:
            return name
        matching = [known for known in self._properties if _folded(known) == _folded(name)]
        if not matching:
            raise self._error(self._unknown_argument(name))
        return matching[0]

    def _unknown_argument(self, name: str) -> str:
        if "arguments" in self._properties:
            return f"{name!r} is not an argument of {self._tool}; put it into `arguments`"
        nearest_names = nearest(name, self._properties)
        did_you_mean = f"; did you mean {nearest_names[0]!r}?" if nearest_names else ""
        return f"{name!r} is not an argument of {self._tool}{did_you_mean}"

    def _error(self, mistake: str) -> MetaArgumentsError:
        names = [f"{n}{'' if n in self._required else '?'}" for n in self._properties]
        return MetaArgumentsError(mistake, f"{self._tool}({', '.join(names)})")


def _shown(value: JSONValue) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return limits.shortened(json.dumps(value), _SHOWN)


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def _parsed(text: str) -> JSONValue:
    try:
        return parse_json(text) if text.strip() else None
    except ValueError:
        return text
