"""Bearer tokens for the gateway over HTTP.

A token comes from `--token-file`, from `$DISCOVERY_TOKEN`, or else from a file in the data folder,
which the first gateway fills with a random one. A token gives access to every tool, so it is
handled like a password: no `repr`, error or log shows it.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from discovery_engine._util.folder_sync import sync_folder
from discovery_engine.engine.restore import registry_path
from discovery_server.token_files import (
    NO_LINKS,
    NO_WAITING,
    PRIVATE,
    is_foreign,
    is_readable_by_others,
    is_writable_by_others,
    read_file,
    reason_of,
    token_problem,
)

VARIABLE = "DISCOVERY_TOKEN"
_OWN_FILE = "http-token"
_BYTES = 32  # 256 bits of randomness
_MIN_TOKEN_LENGTH = 16  # characters of a token that was made elsewhere

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # the `b64token` of RFC 6750
_OWN_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")  # 32 bytes in URL-safe base64

_HOW_TO_MAKE_ONE = "`openssl rand -hex 32` makes one"
_HOW_TO_RENEW = "`discovery serve --http HOST:PORT --new-token` replaces it"


class Tokens(Struct, frozen=True):
    """The valid tokens of a gateway."""

    values: tuple[str, ...]
    whereabouts: str = "the person who started the gateway has it"
    """Where to find one, for a client that has none; names no path of the owner's disk."""
    placeholder: str = ""
    """The text to write where the token should not be shown; empty if it may be."""
    is_random: bool = False
    """True if discovery made the token, so that it cannot be found by trying."""
    notices: tuple[str, ...] = ()
    """Notices for the owner, for instance where the token is stored."""

    def __repr__(self) -> str:
        return f"Tokens({len(self.values)} hidden)"

    @property
    def shown(self) -> str:
        """The token as it is shown in a client's configuration, or a placeholder for it."""
        return self.placeholder or self.values[0]


def parse_tokens(*values: str, origin: str = "token") -> Tokens:
    """Tokens that were made elsewhere.

    Raises:
        ConfigurationError: If there is none, or one cannot be sent in a header or is too short.
    """
    if not values:
        raise token_problem(origin, "holds no token", _HOW_TO_MAKE_ONE)
    for value in values:
        if not _TOKEN.fullmatch(value):
            allowed = "use letters, digits and - . _ ~ + / only"
            raise token_problem(origin, "is no bearer token", f"{allowed}; {_HOW_TO_MAKE_ONE}")
        if len(value) < _MIN_TOKEN_LENGTH:
            message = f"is a token of {len(value)} characters, which can be guessed"
            raise token_problem(
                origin, message, f"{_MIN_TOKEN_LENGTH} are the least; {_HOW_TO_MAKE_ONE}"
            )
    return Tokens(tuple(dict.fromkeys(values)))


def find_tokens(
    environ: Mapping[str, str],
    *,
    data_dir: str | Path | None = None,
    file: str | Path | None = None,
    renew: bool = False,
) -> Tokens:
    """The tokens of `file`, of `$DISCOVERY_TOKEN`, or the one that is kept in the data folder.

    Args:
        environ: Where the variable is looked up.
        data_dir: As `open_engine` takes it. A token is made there if there is none.
        file: A file of the owner's, with a token on each line.
        renew: Put a new token in place of the one that is kept; gateways that run keep theirs.

    Raises:
        ConfigurationError: If what is found cannot be used, or is not the owner's alone.
    """
    if file is not None:
        return _from_file(Path(file))
    if text := environ.get(VARIABLE, "").strip():
        tokens = parse_tokens(text, origin=VARIABLE)
        whereabouts = f"the gateway was started with it in {VARIABLE}"
        return Tokens(tokens.values, whereabouts, f"${{{VARIABLE}}}")
    return _from_data_folder(registry_path(data_dir, environ).with_name(_OWN_FILE), renew=renew)


def _from_file(path: Path) -> Tokens:
    """The owner's own file. A link is followed: that is how secrets are mounted in containers."""
    try:
        data, status = read_file(path, NO_WAITING)
    except OSError as error:
        raise token_problem(path, f"cannot be read: {reason_of(error)}") from error
    if is_writable_by_others(status):
        raise token_problem(path, "can be written by other users", f"`chmod 600 {path}`")
    lines = (line.strip() for line in data.decode("ascii", "replace").splitlines())
    values = [line for line in lines if line and not line.startswith("#")]
    tokens = parse_tokens(*values, origin=str(path))
    whereabouts = "it is in the file that the gateway was given by --token-file"
    notices: tuple[str, ...] = ()
    if is_readable_by_others(status):
        notices = (f"other users can read {path}: `chmod 600` makes it readable by you only",)
    placeholder = f"<the token in {path}>"
    return Tokens(tokens.values, whereabouts, placeholder, notices=notices)


def _from_data_folder(path: Path, *, renew: bool) -> Tokens:
    """The token of the data folder; generated if there is none, or with `renew`."""
    notices = [f"the token is kept in {path}"]
    value, reason = None if renew else _read_own_token(path, notices), ""
    try:
        value = value or _write_own_token(path, secrets.token_urlsafe(_BYTES), renew=renew)
    except OSError as error:
        reason = reason_of(error)
        if isinstance(error, FileExistsError):  # another gateway has just written it
            value = _read_own_token(path, notices)
    if value is None:
        if renew:
            raise token_problem(path, f"cannot be replaced: {reason}", "see who may write there")
        lasting = f"{VARIABLE} or --token-file gives one that lasts"
        notices = [
            f"the token holds for this run only, as {path} cannot be written: {reason}; {lasting}"
        ]
        value = secrets.token_urlsafe(_BYTES)
    whereabouts = (
        "`discovery serve --http` printed it when it started;"
        f" it is also in the file `{_OWN_FILE}` of the gateway's data folder"
    )
    return Tokens((value,), whereabouts, is_random=True, notices=tuple(notices))


def _read_own_token(path: Path, notices: list[str]) -> str | None:
    """The token of the data folder; None if there is no such file."""
    try:
        data, status = read_file(path, NO_LINKS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        reason = "is a symbolic link" if is_link else f"cannot be read: {reason_of(error)}"
        raise token_problem(path, reason, _HOW_TO_RENEW) from error
    if is_foreign(status, path) or is_writable_by_others(status):
        raise token_problem(path, "may have been written by another user", _HOW_TO_RENEW)
    if is_readable_by_others(status):
        path.chmod(PRIVATE)
        notices.append(f"other users could read {path}, which was corrected; {_HOW_TO_RENEW}")
    value = data.decode("ascii", "replace").strip()
    if not _OWN_TOKEN.fullmatch(value):
        what = "is damaged" if value else "is empty"
        raise token_problem(path, f"holds no token: it {what}", _HOW_TO_RENEW)
    return value


def _write_own_token(path: Path, value: str, *, renew: bool) -> str:
    """Write the file atomically; without `renew` an existing one stays.

    Raises:
        FileExistsError: If one is there.
        OSError: If it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{_OWN_FILE}-", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{value}\n")
            file.flush()
            os.fsync(file.fileno())
        # Unlike a rename, a link never replaces the file that another gateway has just written.
        (os.replace if renew else os.link)(name, path)
        sync_folder(path.parent)
    finally:
        Path(name).unlink(missing_ok=True)
    return value
