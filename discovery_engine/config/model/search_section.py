"""The sections `search` and `enrich`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from discovery_engine.config.model.field_types import (
    Template,
    Words,
    custom_error,
    list_or_nothing,
    mapping_or_nothing,
)
from discovery_engine.config.model.section import section
from discovery_engine.config.settings import EmbeddingsSettings, EnrichSettings, SearchSettings
from discovery_engine.config.syntax import is_secure_address

_LONGEST_CODE = 8  # characters; `pt-BR`
_MOST_LANGUAGES = 14  # with those in English, as many requests as `overrides` take
_NEEDED = {"onnx": "path", "openai": "api_key", "http": "url"}
_KEYS = {"path": "path", "api_key": "apiKey", "url": "url"}


def _has_what_it_needs(embeddings: Any) -> None:
    needed = _NEEDED.get(embeddings.provider)
    if needed and not getattr(embeddings, needed):
        key = _KEYS[needed]
        message = f"{embeddings.provider!r} needs {key!r}"
        raise custom_error(message, key="provider", hint=f"add {key}")


def _several(words: list[str]) -> list[str]:
    if len(set(words)) < 2:  # noqa: PLR2004 - a word alone is no synonym
        raise custom_error("is no group", hint="write two or more words that mean the same")
    return words


def _secure(text: str) -> str:
    if text and "${" not in text and not is_secure_address(text):
        raise custom_error(
            "must be an https:// address, or http:// of this machine",
            hint="write the address before /chat/completions, such as http://localhost:11434/v1",
        )
    return text


def _languages(codes: list[str]) -> list[str]:
    for code in codes:
        if len(code) > _LONGEST_CODE or not code.replace("-", "").isalpha():
            raise custom_error("is no code of a language", hint="write de, fr or pt-BR")
    return codes


_EmbeddingsSection = section(EmbeddingsSettings, check=_has_what_it_needs)
SearchSection = section(
    SearchSettings,
    embeddings=Annotated[_EmbeddingsSection, mapping_or_nothing],
    synonyms=Annotated[list[Annotated[Words, AfterValidator(_several)]], list_or_nothing],
)
EnrichSection = section(
    EnrichSettings,
    url=Annotated[Template, AfterValidator(_secure)],
    languages=Annotated[
        Annotated[Words, Field(max_length=_MOST_LANGUAGES)], AfterValidator(_languages)
    ],
)
