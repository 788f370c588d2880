"""The section `search`: how tools are searched for."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from discovery_engine.config.model.embeddings import EmbeddingsSection
from discovery_engine.config.model.field_types import (
    Count,
    Flag,
    Weight,
    Words,
    choice,
    custom_error,
    list_or_nothing,
    mapping_or_nothing,
)
from discovery_engine.config.model.section import Section
from discovery_engine.config.settings import SearchPlace, SearchSettings

_DEFAULTS = SearchSettings()


def _several(words: list[str]) -> list[str]:
    if len(set(words)) < 2:  # noqa: PLR2004 - a word alone is no synonym
        raise custom_error("is no group", hint="write two or more words that mean the same")
    return words


class WeightsSection(Section):
    """How much each part of a match counts; each from 0 to 1."""

    exact: Weight = Field(
        default=_DEFAULTS.weights.exact,
        description="The query is the tool's name, in whatever spelling.",
        examples=[1.0],
    )
    partial: Weight = Field(
        default=_DEFAULTS.weights.partial,
        description="The query's words are in its name or its description.",
        examples=[0.6],
    )
    tag: Weight = Field(
        default=_DEFAULTS.weights.tag,
        description="The query names tags of the tool.",
        examples=[0.2],
    )


class SearchSection(Section):
    """How tools are searched for."""

    limit: Annotated[Count, Field(ge=1, le=1000)] = Field(
        default=_DEFAULTS.limit,
        description="The most tools in an answer, if the request names no limit.",
        examples=[5],
    )
    weights: Annotated[WeightsSection, mapping_or_nothing] = Field(
        default=WeightsSection(),
        description="How much each part of a match counts.",
        examples=[{"exact": 1.0, "partial": 0.6, "tag": 0.2}],
    )
    max_tokens: Annotated[Count, Field(ge=50, le=100_000)] = Field(
        default=_DEFAULTS.max_tokens,
        description="The most that an agent is answered to one query, in estimated tokens, "
        "if it does not ask for more.",
        examples=[400],
    )
    min_confidence: Weight = Field(
        default=_DEFAULTS.min_confidence,
        description="An answer is that no tool fits if one of the first serves the query less "
        "probably than this, from 0 (never) to 1.",
        examples=[0.1],
    )
    embeddings: Annotated[EmbeddingsSection, mapping_or_nothing] = Field(
        default=EmbeddingsSection(),
        description="A model that finds tools by meaning, beside the search by words.",
        examples=[{"provider": "onnx", "path": "models/all-MiniLM-L6-v2"}],
    )
    synonyms: Annotated[list[Annotated[Words, AfterValidator(_several)]], list_or_nothing] = Field(
        default=[],
        description="Groups of words or phrases, in any language, that mean the same to you.",
        examples=[[["ticket", "issue", "Vorgang"], ["PR", "pull request"]]],
    )
    shipped_examples: Flag = Field(
        default=_DEFAULTS.shipped_examples,
        description="Whether the typical requests that ship with the program help to find the "
        "tools of popular servers, which are recognised by their lists.",
        examples=[False],
    )
    learn: Flag = Field(
        default=_DEFAULTS.learn,
        description="Whether it is counted, on this machine only, which tools were found and "
        "then used, to put them before others that fit as well.",
        examples=[True],
    )
    where: Annotated[SearchPlace, choice] = Field(
        default=_DEFAULTS.where,
        description="Where the search index is: in the `memory` of each gateway, or in the "
        "`database` of `registry`, for catalogs of more than 200,000 tools.",
        examples=["database"],
    )
