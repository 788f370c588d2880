"""Names that belong to secrets, words that look like keys, and values that are harmless.

NameKind.of("NOTION_API_KEY")                NameKind.SECRET
looks_like_key("ghp_16C7e42F292c6912E7")     True
is_harmless("db.example.com:5432")           True
"""

from __future__ import annotations

import re
from enum import IntEnum

from discovery_engine._util.lazy_pattern import lazy_pattern

_WORDS = (
    r"token|secret|passw(or)?d|passphrase|pwd|api[-_]?key|credentials?|auth(?!ors?$)|bearer|cookie"
)
_SECRET_FLAG = lazy_pattern(
    rf"-H|--?([\w.]+[-_])*({_WORDS}|(access|private|secret)[-_]?key|headers?|pass|pat)"
    r"([-_](value|string|header))?",
    re.IGNORECASE,
)
_SECRET_NAME = lazy_pattern(
    rf"{_WORDS}|pass$|(^|[-_. ])(key|pat|psw|pin|otp|pem|jwt|sid|sig|signature|dsn|session)s?"
    r"($|[-_. ])|(access|private|account|shared|signing|encryption|master)[-_ ]?key",
    re.IGNORECASE,
)
_PLAIN_NAME = lazy_pattern(
    r"(.*[-_. ])?(host(name)?|server|address|ports?|paths?|dir(ectory)?|root|home|folder|cwd|shell"
    r"|term|region|zone|tz|lang(uage)?|locale|lc_\w+|log|level|env(ironment)?|mode|model|version"
    r"|timeout|interval|limit|size|count|format|type|driver|database|catalog|db|dbname|schema|table"
    r"|sslmode|encrypt|protocol|scheme|bucket|provider|accept|encoding|charset|agent|connection"
    r"|project([-_]id)?|org(anization)?|repo(sitory)?|branch|owner|namespace|cluster|context|profile"
    r"|origin|referer|control|debug|verbose|file|filename|name|title|suffix|realm)",
    re.IGNORECASE,
)
_NOT_THE_SECRET = lazy_pattern(
    r".*[-_ ](ur[il]|endpoint|path|dir|file|name|type|host|port)"
    r"|(max|min|num)[-_].*tokens?|author.*name",
    re.IGNORECASE,
)
"""`TOKEN_FILE` holds no token, and `MAX_TOKENS` a number of them."""

_KEYS = lazy_pattern(r"((sk|pk|rk|gh[opsu]|github_pat|glpat|hf|npm|pypi|xox[a-z])[-_]|eyJ).{8,}")
_RANDOM = lazy_pattern(
    r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[\w+=]{24,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.IGNORECASE | re.ASCII,
)
_CHANGES = lazy_pattern(
    r"(?<=[a-z])(?=[0-9A-Z])|(?<=[0-9])(?=[a-zA-Z])|(?<=[A-Z])(?=[0-9])", re.ASCII
)
_RESTLESS = 4  # changes of letters, digits and case: `s3Cr3tK9` has seven, `v1beta2` three
_SHORTEST_KEY = 8  # characters

_HARMLESS = lazy_pattern(
    r"127\.0\.0\.1|admin|all|allow|always|anonymous|app|application|async|auto|basic|bearer|beta"
    r"|client|cluster|common|config|console|context|database|debug|default|demo|deny|development"
    r"|disabled|docker|email|enabled|english|error|example|experimental|false|fatal|file|files"
    r"|filesystem|full|github|gitlab|global|group|guest|host|http|https|info|internal|json"
    r"|kubernetes|latest|level|linux|list|local|localhost|log|main|manual|master|memory|model"
    r"|mongodb|mssql|mysql|name|never|nobody|none|normal|null|off|openai|optional|oracle|password"
    r"|path|playwright|plain|port|postgres|postgresql|preprod|preview|private|prod|production"
    r"|project|proxy|public|python|quiet|read|readonly|read-only|read-write|redis|region|release"
    r"|remote|required|root|server|service|session|shared|silent|slack|sqlite|stable|stage|staging"
    r"|standard|stderr|stdio|stdout|strict|string|sync|system|team|tenant|test|testing|text|token"
    r"|trace|true|undefined|update|user|username|utf-8|utf8|verbose|version|warn|warning|web"
    r"|windows|workspace|write",
    re.IGNORECASE,
)
_FORMS = (
    lazy_pattern(
        r"[-+]?\d{1,5}|\d{1,9}000|\d*\.\d{1,4}|\d+(\.\d+){1,3}(:\d+)?|\d{1,9} ?[a-zA-Zµ%]{1,3}"
    ),
    lazy_pattern(r"\d{4}-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d)?(\.\d{1,9})?Z?)?)?"),
    lazy_pattern(
        r"[a-z]{2}[-_][A-Z]{2}(\.[\w-]{1,12})?|[A-Z][a-z]+(/[A-Z][A-Za-z_]+)+|[a-z]{2}(-[a-z]+)+-\d"
    ),
    lazy_pattern(r"(application|text|image|audio)/[a-z0-9.+*-]+|\*/\*"),
)
_HOST = lazy_pattern(
    r"(localhost|([a-z0-9][a-z0-9-]{0,40}\.)+(com|net|org|io|dev|local|internal|app|cloud|info|test"
    r"|example|invalid|svc|[a-z]{2})|\[[0-9a-f:.]+\])(:\d{1,5})?"
)
_PATH = lazy_pattern(r"(~|\.{1,2})?/[^\0\n]*|[A-Za-z]:[\\/][^\0\n]*")
_FILE = lazy_pattern(r"(~|\.{1,2})/[^\0\n]+|/[^/\0\n]+/[^\0\n]+|[A-Za-z]:[\\/][^\0\n]+")
_STEPS = lazy_pattern(r"[/\\:;]")
_PLAIN = lazy_pattern(r"[a-z]+([-_ ./][a-z]+)*|[A-Z][a-z]+( [A-Z]?[a-z]+)*|[A-Z]+([-_][A-Z]+)*")
_LONGEST_PLAIN = 15  # letters; longer ones are no plain option


class NameKind(IntEnum):
    """The secrecy that the name of a value implies."""

    PLAIN = 0
    UNTELLING = 1
    SECRET = 2

    @classmethod
    def of(cls, name: str) -> NameKind:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[:200])
        if _SECRET_NAME.search(words) and not _NOT_THE_SECRET.fullmatch(words):
            return cls.SECRET
        return cls.PLAIN if _PLAIN_NAME.fullmatch(words) else cls.UNTELLING

    def within(self, whole: NameKind) -> NameKind:
        """Return the kind of a part; one with a neutral name is as secret as the whole."""
        return whole if self is NameKind.UNTELLING else self


def is_secret_flag(word: str) -> bool:
    """Return whether this flag is followed by a secret."""
    return _SECRET_FLAG.fullmatch(word) is not None


def is_key(word: str) -> bool:
    """Return whether a word has the form of a known kind of key, or of a long random one."""
    return bool(_KEYS.fullmatch(word) or _RANDOM.fullmatch(word))


def looks_like_key(word: str) -> bool:
    """Return whether a word may be a key by its form, even a short one of no known kind."""
    if len(word) < _SHORTEST_KEY:
        return False
    return is_key(word) or len(_CHANGES.findall(word[:200])) >= _RESTLESS


def is_plain(words: str) -> bool:
    """Return whether these are words as they stand in options and sentences."""
    return len(words) <= _LONGEST_PLAIN and _PLAIN.fullmatch(words) is not None


def is_harmless(value: str) -> bool:
    """Return whether a value is a plain number, switch, host, path or the like, and no secret."""
    if not value or _HARMLESS.fullmatch(value):
        return True
    if any(form.fullmatch(value) for form in _FORMS):
        return True
    if "," in value:
        return all(is_harmless(item.strip()) for item in value.split(","))
    if looks_like_key(value) and "/" not in value:
        return False
    if _HOST.fullmatch(value):
        return not any(map(looks_like_key, value.split(".")))
    return bool(_PATH.fullmatch(value)) and not any(map(_is_odd, _STEPS.split(value)))


def is_harmless_file(value: str) -> bool:
    """Return whether a value is the path of a file in a folder, and no step of it may be a key."""
    return bool(_FILE.fullmatch(value)) and not any(map(_is_odd, _STEPS.split(value)))


def _is_odd(step: str) -> bool:
    return looks_like_key(step) or not {"+", "="}.isdisjoint(step)
