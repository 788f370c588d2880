"""The secrets of all servers used by this process, for what they share: logs, events, registry.

Libraries log what they send, into one log for the whole process. So the log formatter redacts the
secrets of every server used so far.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from typing import Any

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.secrets.masking import redact_url
from discovery_engine.secrets.redactor import Redactor
from discovery_engine.secrets.references import REDACTED

_MAX_KNOWN_SECRETS = 10_000  # secrets; beyond it, the old ones are dropped
_MOST_TOKENS = 1_000  # of logins; beyond it, the old ones are dropped: they have expired
_ADDRESS = lazy_pattern(r"[a-z][a-z0-9+.-]{0,30}://[^\s'\"<>`]+", re.IGNORECASE)
_CREDENTIAL = lazy_pattern(
    r"(?P<before>\b(?:(?:proxy-)?authorization|(?:set-)?cookie|x-api-key|api-key|x-auth-token"
    r"|(?:mcp-)?session[- ]id)\b['\"]?\s{0,3}[:=,]\s{0,3}b?['\"]?)"
    r"(?!\s*\$\{\w+\} is not set)[^'\"\r\n]+",  # must stay readable
    re.IGNORECASE,
)
_CREDENTIALS = ("authorization", "cookie", "api-key", "auth-token", "session")
"""One of them is in whatever `_CREDENTIAL` matches."""
_TOKEN = lazy_pattern(r"(?P<before>\b(?:bearer|basic)\s{1,3})[\w.~+/=-]{8,}", re.IGNORECASE)


class KnownSecrets:
    def __init__(self) -> None:
        self._all = Redactor(())
        self._certain = Redactor(())
        self._tokens = Redactor(())

    def add(self, secrets: Iterable[str], certain: Iterable[str]) -> None:
        """Add secrets; `certain` are those that do not occur in other text by chance."""
        if len(self._all) > _MAX_KNOWN_SECRETS:
            self._all, self._certain = Redactor(()), Redactor(())
        self._all.add(secrets)
        self._certain.add(certain)

    def add_tokens(self, tokens: Iterable[str]) -> None:
        """Add tokens of logins: random, so that they are redacted in the output of any server."""
        tokens = tuple(tokens)
        self.add(tokens, tokens)
        if len(self._tokens) > _MOST_TOKENS:
            self._tokens = Redactor(())
        self._tokens.add(tokens)

    def add_value(self, value: str, name: str, *, is_secret: bool) -> None:
        """Add what a server is given besides its entry, if it is a secret; see `secrets_in`.

        Like a token it is redacted in the output of any server, unless it may occur by chance.
        """
        # Its patterns take 10 ms to compile, and most values come with an entry.
        from discovery_engine.secrets.values import secrets_in  # noqa: PLC0415

        secrets = list(secrets_in(value, name, is_secret=is_secret))
        self.add((secret.text for secret in secrets), ())
        self.add_tokens(secret.text for secret in secrets if secret.is_certain)

    def add_certain(self, value: str, name: str) -> None:
        """Add the secrets of any variable, but no words that only may be one; see `add_value`."""
        from discovery_engine.secrets.secret_names import NameKind  # noqa: PLC0415 - as above
        from discovery_engine.secrets.values import secrets_in  # noqa: PLC0415

        if NameKind.of(name) is NameKind.SECRET:
            self.add_value(value, name, is_secret=True)
        else:
            self.add_tokens(secret.text for secret in secrets_in(value, name) if secret.is_certain)

    def redact_tokens(self, text: str) -> str:
        return self._tokens.redact(text)

    def redact_tokens_in_json(self, value: Any) -> Any:
        """`value` without tokens in its texts; `value` itself if it has none."""
        return redact_json(value, self._tokens) if len(self._tokens) else value

    def redact(self, text: str) -> str:
        return self._all.redact(text)

    def may_redact(self, text: str, *, also: str = "") -> bool:
        """Return False if `redact` certainly changes nothing; see `Redactor.may_redact`."""
        return self._all.may_redact(text, also=also)

    def redact_log(self, text: str) -> str:
        """`text` without known secrets, and without credentials in addresses and headers."""
        text = self._all.redact(text)
        if "://" in text:
            text = _ADDRESS.sub(lambda match: redact_url(match[0]), text)
        lowered = text.lower()
        if any(name in lowered for name in _CREDENTIALS):  # the patterns take ten times as long
            text = _CREDENTIAL.sub(rf"\g<before>{REDACTED}", text)
        if "bearer" in lowered or "basic" in lowered:
            text = _TOKEN.sub(rf"\g<before>{REDACTED}", text)
        return text

    def redact_json(self, value: Any) -> Any:
        """`value` without certain secrets in its texts; the names of members stay."""
        return redact_json(value, self._certain)


def redact_json(value: Any, redactor: Redactor) -> Any:
    """`value` without the secrets in its texts, or itself if it has none; names of members stay."""
    match value:
        case str():
            return redactor.redact(value)
        case dict():
            redacted = {name: redact_json(member, redactor) for name, member in value.items()}
            return redacted if any(redacted[name] is not value[name] for name in value) else value
        case list() | tuple():
            parts = [redact_json(item, redactor) for item in value]
            return parts if any(map(operator.is_not, parts, value)) else value
    return value


KNOWN_SECRETS = KnownSecrets()
