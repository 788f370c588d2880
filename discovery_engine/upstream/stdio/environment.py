"""The environment of a server's program, and a hint that names a variable that it lacked.

A program inherits variables without secrets of this process, and those without which it may not
reach the network: certificates, proxies, and the settings of package runners. What is secret in
these is redacted wherever it is shown.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.secrets.secret_names import NameKind
from discovery_engine.tools.model import ServerName

_POSIX = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ")
_WINDOWS = (
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT"),
    *("PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE"),
)
_HARMLESS = frozenset((*(_WINDOWS if sys.platform == "win32" else _POSIX), "USER", "USERNAME"))
_OF_NETWORK = lazy_pattern(
    r"(?i:all|https?|no)_(?i:proxy)|(?i:npm_config)_.+|(?:PIP|XDG)_.+|UV_(?!PUBLISH_).+"
    r"|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE|SSL_CERT_(?:DIR|FILE)"
)

# Signs in stderr that a program was not given a variable, with a pattern of its name. They are
# compiled when a start has failed.
_CERTIFICATES = r"certificate|self.signed|x509|PKIX|UNABLE_TO_\w+_CERT|\b(?:SSL|TLS)\b"
_CONNECTIONS = (
    r"proxy|ECONN|ETIMEDOUT|EAI_AGAIN|ENOTFOUND|\bdns\b|getaddrinfo|name resolution|name or service"
    r"|unreachable|connection (?:refused|reset|timed)|sending request|registry|index|\bE?40[134]\b"
)
_WITHHELD = (
    (_CERTIFICATES, r".*(?:CERT|_CA_|CAINFO|CAFILE|SSL|TLS).*"),
    (_CONNECTIONS, r".*(?:PROXY|REGISTRY|INDEX|MIRROR).*"),
    (r"docker|podman", r"DOCKER_.*|CONTAINER_HOST"),
    (r"publickey|host key|\bssh\b", r"SSH_AUTH_SOCK|GIT_SSH.*"),
)
_MISSING = (
    r"required|requires|missing|not set|unset|must be|must set|undefined|please (?:set|provide)"
    r"|not (?:provided|defined|configured|found)|environment variable|env var|^KeyError: "
)
_VARIABLE = (
    r"(?<=KeyError: ')[A-Z]\w{1,60}"
    r"|\b(?!(?:CERT|CERTIFICATE|DEPTH|E|ERR|ERROR|MODULE|SELF|UNABLE)_)[A-Z][A-Z\d]*(?:_[A-Z\d]+){1,9}\b"
)
_MOST_NAMED = 3


def child_environment(
    environ: Mapping[str, str], declared: Mapping[str, str], passed: Sequence[str] = ()
) -> dict[str, str]:
    """Return the variables that a program inherits of `environ`, and those of its entry.

    `passed` are names, or patterns such as `AWS_*`, of variables that its owner passes besides.
    """
    inherited = {
        name: value
        for name, value in environ.items()
        # such a value is a shell function, which some shells would run
        if _is_inherited(name, passed) and not value.startswith("()")
    }
    return inherited | dict(declared)


def is_harmless(name: str) -> bool:
    """Return whether a variable is inherited as neither a secret nor a setting of the network."""
    return name in _HARMLESS


def _is_inherited(name: str, passed: Sequence[str]) -> bool:
    return (
        name in _HARMLESS
        or _OF_NETWORK.fullmatch(name) is not None
        or any(fnmatchcase(name, pattern) for pattern in passed)
    )


def missing_variables(stderr: str, env: Mapping[str, str]) -> list[str]:
    """Return the variables that a program names as missing on its stderr, and `env` lacks."""
    return _first(
        name
        for line in stderr.splitlines()
        if re.search(_MISSING, line, re.IGNORECASE)
        for name in re.findall(_VARIABLE, line)
        if not env.get(name)
    )


def environment_hint(
    server: ServerName, stderr: str, environ: Mapping[str, str], env: Mapping[str, str]
) -> str:
    """Return a hint on the variable that a program lacked, judging by its stderr; may be empty.

    `env` is what it was given, of `environ` and besides.
    """
    if missing := missing_variables(stderr, env):
        secrets = (f"{server}/{name}" for name in missing if _is_stored(name, environ))
        assignments = ", ".join(f"{name}: {_reference(server, name, environ)}" for name in missing)
        ways = [
            *(f"`discovery secrets set {secret}`" for secret in secrets),
            f"`env: {{{assignments}}}`",
        ]
        needed = ", ".join(missing)
        return f"it needs {needed}: {' and '.join(ways)} in the entry of server {server!r}"
    withheld = (
        name
        for sign, variable in _WITHHELD
        if re.search(sign, stderr, re.IGNORECASE)
        for name in environ
        if name not in env and re.fullmatch(variable, name, re.IGNORECASE)
    )
    if named := ", ".join(f"`{name}`" for name in _first(withheld)):
        return f"it is not given {named}, which is set here: `server.passEnv` passes it to programs"
    return ""


def _first(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))[:_MOST_NAMED]


def _is_stored(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether the value of a variable should be a stored secret."""
    return name not in environ and NameKind.of(name) is NameKind.SECRET


def _reference(server: ServerName, name: str, environ: Mapping[str, str]) -> str:
    if name in environ:
        return f"${{{name}}}"
    return f"${{secret:{server}/{name}}}" if _is_stored(name, environ) else "…"
