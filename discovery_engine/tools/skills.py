"""Skills of servers: folders of instructions, whose files are resources.

    {"uri": "skill://refunds/SKILL.md", "frontmatter": {"name": "refunds", "description": "…"},
     "resources": [{"uri": "skill://refunds/SKILL.md", "digest": "sha256:…", "size": 812}]}

A definition has a member `text` besides, that of `SKILL.md`, which is scanned and reviewed. Source:
the extension `io.modelcontextprotocol/skills` (SEP-2640).
"""

from __future__ import annotations

from base64 import b64decode
from urllib.parse import unquote, urlsplit

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.lazy_pattern import lazy_pattern

TEXT = "text"
MAX_TEXT = 64 * 1024
"""Bytes of a `SKILL.md`; more could not be reviewed."""
MAX_FILE_TEXT = 512 * 1024
"""Bytes of another text file; more would take the scanner seconds."""
_MAIN = "SKILL.md"
_NAME = lazy_pattern(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_SPELLED = lazy_pattern(r"(?i)[?#\\]|%2f")
_DIGEST = lazy_pattern(r"sha256:[0-9a-f]{64}")
_LONGEST_DESCRIPTION = 1024  # characters
_MAX_FILES = 512
_MAX_BYTES = 16 << 20
_TEXTS = {"license": 10_000, "allowed-tools": 10_000, "compatibility": 500}
"""Members of the frontmatter that are strings, with their longest length."""


def root_of(uri: str) -> str:
    """Return the folder of a skill, with a slash at its end."""
    return uri.removesuffix(_MAIN)


def fault_of_skill(definition: JSONObject) -> str | None:
    """Return why a skill with a URI cannot be used; None if it can."""
    frontmatter, files = definition.get("frontmatter"), definition.get("resources")
    if not isinstance(frontmatter, dict):
        return "its frontmatter is not an object"
    if files == "dynamic":
        return "its files have no digests, so that nobody could review what is read of it"
    if not isinstance(files, list):
        return "its resources are not a list"
    return _fault_of_frontmatter(frontmatter, definition["uri"]) or _fault_of_files(
        files, definition["uri"]
    )


def _fault_of_frontmatter(frontmatter: JSONObject, uri: str) -> str | None:
    name, description = frontmatter.get("name"), frontmatter.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return (
            "its name is not one of a skill: small letters, digits and single hyphens, at most 64"
        )
    if not isinstance(description, str) or not 0 < len(description.strip()) <= _LONGEST_DESCRIPTION:
        return "its description does not have 1 to 1,024 characters"
    for member, longest in _TEXTS.items():
        value = frontmatter.get(member, "-")
        if not isinstance(value, str) or not 0 < len(value) <= longest:
            return f"its {member} is not a string of 1 to {longest:,} characters"
    metadata = frontmatter.get("metadata", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        return "its metadata are not strings"
    *folders, main = _segments(uri)
    if main != _MAIN or not folders or folders[-1] != name:
        return f"its uri does not end with /{name}/{_MAIN}"
    return None


def _fault_of_files(files: list[JSONValue], uri: str) -> str | None:
    if not all(map(_is_file, files)):
        return "a file of it has no valid uri, digest and size"
    uris = [file["uri"] for file in files]
    if not all(of.startswith(root_of(uri)) and _is_plain(of) for of in uris):
        return "a file of it is outside of its folder"
    if len(set(uris)) < len(uris) or uri not in uris:
        return f"its resources do not have {_MAIN}, and each other file once"
    if len(files) > _MAX_FILES or sum(file["size"] for file in files) > _MAX_BYTES:
        return f"it has more than {_MAX_FILES} files or {_MAX_BYTES >> 20} MiB"
    return None


def _is_file(file: JSONValue) -> bool:
    match file:
        case {"uri": str(), "digest": str() as digest, "size": int() as size}:
            return bool(_DIGEST.fullmatch(digest)) and type(size) is int and size >= 0
    return False


def _is_plain(uri: str) -> bool:
    """Return whether a URI has one spelling only."""
    return not {".", ".."}.intersection(_segments(uri)) and not _SPELLED.search(uri)


def _segments(uri: str) -> list[str]:
    parts = urlsplit(uri)
    return [unquote(part) for part in (parts.netloc, *parts.path.split("/")) if part]


def files_of(definition: JSONObject) -> dict[str, str]:
    """Return the digest of each file of a usable skill, by its URI."""
    return {file["uri"]: file["digest"] for file in definition["resources"]}


def with_text(definition: JSONObject, result: JSONObject) -> JSONObject:
    """Return the definition with the text of its `SKILL.md`, from the result of reading it.

    Raises:
        ValueError: If the result is not that of the digest, or no text.
    """
    content = content_of(result, definition["uri"])
    if not is_content(content, files_of(definition)[definition["uri"]]):
        raise ValueError(f"its {_MAIN} is not what its digest says")
    if len(content) > MAX_TEXT:
        raise ValueError(f"its {_MAIN} is larger than {MAX_TEXT >> 10} KiB")
    known = {name: definition[name] for name in ("uri", "frontmatter", "resources")}
    return known | {TEXT: content.decode()}


def content_of(result: JSONObject, uri: str) -> bytes:
    """Return the bytes of a resource in the result of `resources/read`.

    Raises:
        ValueError: If it has no single content of that URI.
    """
    match result.get("contents"):
        case [{"text": str() as text, **rest}] if rest.get("uri") == uri:
            return text.encode("utf-8", "surrogatepass")
        case [{"blob": str() as blob, **rest}] if rest.get("uri") == uri:
            return b64decode(blob, validate=True)
    raise ValueError("it was not read as one content")


def text_in(result: JSONObject, content: bytes) -> str | None:
    """Return the text of a file as somebody would show it; None for a binary file."""
    if b"\0" in content and "blob" in result["contents"][0]:
        return None
    return content.decode("utf-8", "replace")


def is_content(content: bytes, digest: str) -> bool:
    """Return whether content has a digest `sha256:…`."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL, which most reading does not need

    return f"sha256:{hashlib.sha256(content).hexdigest()}" == digest
