"""Rules and verdicts as plain values, and explanations of verdicts in words.

Nothing is compiled here, so a stored catalog can be read without importing a pattern library.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from msgspec import Struct, field

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.errors import Origin

Withheld: TypeAlias = Literal["changed", "pending", "suspicious", "unpinned"]
"""The reason for which a tool is withheld: its definition has changed since it was accepted, was
never accepted, is suspicious and was never accepted, or differs from the lock file."""
Refusal: TypeAlias = Literal["untrusted", "altered", "unpinned"]
"""The reason for which a server is not started: it was never approved, it differs from what was
approved, or it differs from the lock file."""
Reason: TypeAlias = (
    Literal["default", "rule", "whitelist", "server", "switch", "off"] | Withheld | Refusal
)
"""`whitelist`: no rule decides, and at least one rule enables other items; `server`: its server is
disabled; `off`: the configuration disables every server."""

WITHHELD: frozenset[str] = frozenset(get_args(Withheld))
NOBODY = "nobody"
"""The principal in place of an invalid `visibleTo`; no token has it."""
FOR_REVIEW: tuple[Withheld, ...] = ("changed", "pending", "suspicious")
"""The reasons for which a tool waits for the owner's review."""
REFUSALS: frozenset[str] = frozenset(get_args(Refusal))


class Rule(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An entry of `toolRules`, `resourceRules`, `promptRules` or `serverRules`.

    Its encoded fields have the names of the configuration's keys.
    """

    patterns: tuple[str, ...] = field(default=(), name="pattern")
    servers: tuple[str, ...] = field(default=(), name="server")
    """Patterns for the name of the server; not in `serverRules`."""
    annotations: Mapping[str, bool | str] = field(default_factory=dict)
    """Annotations that the tool must have; only in `toolRules`."""
    has_tags: tuple[str, ...] = field(default=(), name="matchTags")
    """Patterns for the tags of the server, of which one must match; not in `toolRules`."""
    enabled: bool | None = None
    tags: tuple[str, ...] = ()
    visible_to: tuple[str, ...] = field(default=(), name="visibleTo")
    """The only teams and users that see the matching items; empty for all."""
    origin: Origin = Origin("")


class Verdict(Struct, frozen=True, cache_hash=True):
    """The decision on a tool or another item: whether it is enabled, its tags, and the reason."""

    enabled: bool = True
    tags: tuple[str, ...] = ()
    reason: Reason = "default"
    rule: int | None = None
    """The index of the rule that decided; set with reason `rule`."""
    detail: str = ""
    """Details of the reason, for the owner alone; set if a server is refused."""

    def carries(self, tags: Collection[str], *, any_tag: bool = False) -> bool:
        """Return whether it has all of `tags`, or one with `any_tag`; True if `tags` is empty."""
        matches = any if any_tag else all
        return not tags or matches(tag in self.tags for tag in tags)


# Explanations of verdicts, which need no pattern library either.

_MOST_NAMES = 8  # names of a client's list that an explanation contains

Subject = Literal["tool", "server", "resource", "prompt"]

_REASONS: Mapping[Reason, str] = {
    "switch": "it is switched off",
    "off": "the configuration has `enabled: false`",
    "changed": "a change that waits for review",
    "pending": "quarantine until it is reviewed",
    "suspicious": "a suspicion that waits for review",
    "unpinned": "the lock file, which does not pin it as it is now",
    "untrusted": "the lack of an approval",
    "altered": "the lack of an approval for what it has become",
}


class Step(Struct, frozen=True):
    """The part of one rule in a verdict."""

    index: int
    rule: Rule
    matched: bool
    decided: bool
    too_slow: bool
    """True if a pattern exceeded its time; the rule then counts as matching only if it disables."""
    tags: tuple[str, ...]
    """The tags that no earlier rule has added."""


class RuleExplanation(Struct, frozen=True):
    """A verdict with the part of each rule in it."""

    verdict: Verdict
    steps: tuple[Step, ...]
    """One step for each rule, in order."""
    sentence: str
    """The reason for the verdict, see `describe`."""

    @property
    def deciding(self) -> Step | None:
        """The step of the rule that decided; None if no rule did."""
        return next((step for step in self.steps if step.decided), None)


def describe(verdict: Verdict, rules: Sequence[Rule], *, subject: Subject = "tool") -> str:
    """Describe the reason for a verdict in a few words, without a full stop.

    An example is `rule 3 (discovery.yaml:12:5) disables tools matching '*delete*'`. `rules` must be
    those that the verdict was computed with.
    """
    if verdict.rule is not None:
        rule, verb = rules[verdict.rule], "enables" if verdict.enabled else "disables"
        if rule.origin.client:
            return f"{rule.origin.client} {_list_of_client(rule)} ({rule.origin})"
        return f"{rule_name(verdict.rule, rules)} {verb} {_scope(rule, subject)}"
    if verdict.reason == "server":
        return "its entry has enabled: false" if subject == "server" else "its server is disabled"
    if verdict.reason in _REASONS:
        return _REASONS[verdict.reason]
    if verdict.reason == "whitelist":
        enabling = next(index for index, rule in enumerate(rules) if rule.enabled)
        return f"no rule enables it, and {rule_name(enabling, rules)} makes them a whitelist"
    return "no rule disables it"


def decider(verdict: Verdict, rules: Sequence[Rule], *, subject: Subject = "tool") -> str:
    """Name the reason for a verdict and its place, such as `rule 3 (discovery.yaml:12:5)`."""
    if verdict.rule is not None:
        return rule_name(verdict.rule, rules)
    return describe(verdict, rules, subject=subject)


def public_decider(verdict: Verdict, *, subject: Subject = "tool") -> str:
    """Name the reason for a verdict in words that any client may read.

    They contain neither files nor patterns, which may name hidden tools, nor the number of a rule,
    which would reveal how many rules concern other teams.
    """
    if verdict.rule is not None:
        return "a rule of the owner"
    if verdict.reason == "whitelist":
        return "no rule of the owner enables it"
    return describe(verdict, (), subject=subject)


def rule_name(index: int, rules: Sequence[Rule]) -> str:
    """Return the name of a rule, counted from 1, such as `rule 3 (discovery.yaml:12:5)`."""
    origin = rules[index].origin
    name = f"the list of tools of {origin.client}" if origin.client else f"rule {index + 1}"
    return f"{name} ({origin})" if origin.file else name


def _scope(rule: Rule, subject: Subject) -> str:
    conditions = list(_conditions(rule))
    return " ".join([f"{subject}s" if conditions else f"all {subject}s", *conditions])


def _list_of_client(rule: Rule) -> str:
    """Describe a client's list of tools, which is always a rule that disables."""
    if not rule.patterns:
        return "excludes all tools"
    excepted = _excepted(rule.patterns)
    names = excepted or rule.patterns
    others = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    listed = ", ".join(names[:_MOST_NAMES]) + others
    return f"allows only {listed}" if excepted else f"excludes {listed}"


def _excepted(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns without their `!` if all of them are negated; otherwise nothing."""
    is_rest = all(pattern.startswith("!") for pattern in patterns)
    return tuple(pattern[1:] for pattern in patterns) if is_rest else ()


def _conditions(rule: Rule) -> Iterator[str]:
    if excepted := _excepted(rule.patterns):
        yield f"other than {_quoted(excepted)}"
    elif rule.patterns:
        yield f"matching {_quoted(rule.patterns)}"
    if rule.servers:
        yield f"of servers matching {_quoted(rule.servers)}"
    if rule.has_tags:
        yield f"tagged {_quoted(rule.has_tags)}"
    if rule.annotations:
        stated = (f"{name}: {_yaml(value)}" for name, value in rule.annotations.items())
        yield f"annotated {', '.join(stated)}"


def _quoted(patterns: Sequence[str]) -> str:
    return ", ".join(map(repr, patterns))


def _yaml(value: bool | str) -> str:  # noqa: FBT001 - it is the value, not a switch
    return str(value).lower() if isinstance(value, bool) else repr(value)


#     visibleTo: [team:payments, user:anna@example.com]
#
# Names are compared as they are written, case included.

_PRINCIPAL = lazy_pattern(r"(?:team|user):[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
_NAMES = "begin with a letter or a digit, go on with letters, digits and . _ @ + -"


class PrincipalError(ValueError):
    """A text that names neither a team nor a user."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} names no team and no user")
        self.hint = f"write team:NAME or user:NAME; names {_NAMES}"


def parse_principals(texts: Iterable[str]) -> frozenset[str]:
    """The teams and users of these texts.

    Raises:
        PrincipalError: For the first that names none.
    """
    return frozenset(map(parse_principal, texts))


def parse_principal(text: str) -> str:
    """The text itself, if it names a team or a user.

    Raises:
        PrincipalError: If it does not.
    """
    if not _PRINCIPAL.fullmatch(text):
        raise PrincipalError(text)
    return text
