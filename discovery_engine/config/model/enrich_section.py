"""The section `enrich`: who writes typical requests for tools, when the owner asks for it."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from discovery_engine.config.model.field_types import (
    Count,
    Number,
    Template,
    Text,
    Words,
    custom_error,
)
from discovery_engine.config.model.section import Section
from discovery_engine.config.settings import EnrichSettings
from discovery_engine.config.syntax import is_secure_address

_DEFAULTS = EnrichSettings()
_LONGEST_CODE = 8  # characters; `pt-BR`
_MOST_LANGUAGES = 14  # with those in English, as many requests as `overrides` take


def _secure(text: str) -> str:
    if text and "${" not in text and not is_secure_address(text):
        raise custom_error(
            "must be an https:// address, or http:// of this machine",
            hint="write the address before /chat/completions, such as http://localhost:11434/v1",
        )
    return text


def _language(code: str) -> str:
    if len(code) > _LONGEST_CODE or not code.replace("-", "").isalpha():
        raise custom_error("is no code of a language", hint="write de, fr or pt-BR")
    return code


class EnrichSection(Section):
    """The language model that writes typical requests for tools, with `discovery enrich` alone."""

    url: Annotated[Template, AfterValidator(_secure)] = Field(
        default="",
        description="The address before `/chat/completions`, of an endpoint that speaks OpenAI's "
        "protocol; https, or this machine.",
        examples=["http://localhost:11434/v1"],
    )
    model: Text = Field(default="", description="The model's name there.", examples=["llama3.1"])
    api_key: Template = Field(
        default="",
        description="The key for the address. Refer to it, do not write it.",
        examples=["${OPENAI_API_KEY}"],
    )
    languages: Annotated[
        Annotated[Words, Field(max_length=_MOST_LANGUAGES)],
        AfterValidator(lambda codes: list(map(_language, codes))),
    ] = Field(
        default=[],
        description="Codes of languages in which one more request is written for each tool, "
        "beside six in English.",
        examples=[["de", "fr"]],
    )
    concurrency: Annotated[Count, Field(ge=1, le=32)] = Field(
        default=_DEFAULTS.concurrency,
        description="For how many tools the model is asked at the same time.",
        examples=[1],
    )
    requests_per_minute: Annotated[Count, Field(ge=1, le=6000)] = Field(
        default=_DEFAULTS.requests_per_minute,
        description="How often the model is asked in a minute, at most.",
        examples=[500],
    )
    timeout: Annotated[Number, Field(gt=0, le=3600)] = Field(
        default=_DEFAULTS.timeout,
        description="Seconds that the model has for an answer.",
        examples=[300],
    )
