"""What an owner may write under `search.embeddings`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from discovery_engine.config.model.field_types import (
    Count,
    Number,
    Template,
    Text,
    choice,
    custom_error,
)
from discovery_engine.config.model.section import Section
from discovery_engine.config.settings import EmbeddingsSettings

Provider = Literal["none", "discovery", "static", "onnx", "openai", "http", "hash"]

_DEFAULTS = EmbeddingsSettings()
_LONGEST_WAIT = 60  # seconds; a search that takes longer is of no use
_NEEDED = {"onnx": "path", "openai": "api_key", "http": "url"}
_KEYS = {"path": "path", "api_key": "apiKey", "url": "url"}


class EmbeddingsSection(Section):
    """A model that finds tools by meaning, beside the search by words."""

    provider: Annotated[Provider, choice] = Field(
        default=_DEFAULTS.provider,
        description="What computes the vectors: the model of `discovery model install` "
        "(`discovery`), the word vectors that ship with the program (`static`), another model in a "
        "folder (`onnx`), OpenAI, a compatible address such as Ollama or TEI (`http`), nothing "
        "(`none`), or, for tests, a checksum of words (`hash`).",
        examples=["discovery"],
    )
    model: Text = Field(
        default="",
        description="The model's name there; of `openai` text-embedding-3-small if left out.",
        examples=["nomic-embed-text"],
    )
    path: Text = Field(
        default="",
        description="The folder with `model.onnx` and `tokenizer.json`; a relative path starts at "
        "the folder of this file.",
        examples=["models/all-MiniLM-L6-v2"],
    )
    url: Template = Field(
        default="",
        description="The address before `/embeddings`.",
        examples=["http://localhost:11434/v1"],
    )
    api_key: Template = Field(
        default="",
        description="The key for the address. Refer to it, do not write it.",
        examples=["${OPENAI_API_KEY}"],
    )
    dimensions: Annotated[Count, Field(ge=0, le=16_384)] = Field(
        default=_DEFAULTS.dimensions,
        description="How long vectors are asked for, where the model lets one choose; 0 leaves it "
        "to the model.",
        examples=[256],
    )
    batch: Annotated[Count, Field(ge=1, le=2048)] = Field(
        default=_DEFAULTS.batch, description="How many texts are sent at once.", examples=[128]
    )
    timeout: Annotated[Number, Field(gt=0, le=_LONGEST_WAIT)] = Field(
        default=_DEFAULTS.timeout,
        description="Seconds that a search waits for the vector of its query; after that it "
        "answers by words alone.",
        examples=[1],
    )

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> EmbeddingsSection:
        needed = _NEEDED.get(self.provider)
        if needed and not getattr(self, needed):
            key = _KEYS[needed]
            raise custom_error(
                f"{self.provider!r} needs {key!r}", key="provider", hint=f"add {key}"
            )
        return self
