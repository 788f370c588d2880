"""Models over HTTP, and embeddings by OpenAI's protocol: OpenAI itself, Ollama, TEI and others.

The answer is untrusted: it is read up to a size limit, and nothing of it is shown but the
number of its status.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import httpx2
from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.errors import DiscoveryError
from discovery_engine.search.embedders.embedder import EmbeddingError, Vector

_MOST_BYTES = 64 * 1024 * 1024  # a batch of 2,048 vectors of 1,536 numbers takes 60 MB as text
_TOO_OFTEN = 429
_REFUSED = (401, 403)


class ModelEndpoint(Struct, frozen=True):
    """An address that a model answers at; the client's owner sets its time limits and closes it."""

    client: httpx2.AsyncClient
    address: str
    key: str
    name: str
    """The noun for it in error messages, for instance `the embedder`."""
    setting: str
    """The section of its settings, for instance `search.embeddings`."""
    error: type[DiscoveryError]
    most_bytes: int

    async def post(self, request: JSONObject) -> JSONValue:
        """Return the answer to a request.

        Raises:
            DiscoveryError: Of the class `error`, if there is no JSON.
        """
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            async with self.client.stream(
                "POST", self.address, json=request, headers=headers
            ) as response:
                if not response.is_success:
                    raise self._refusal(response.status_code)
                content = bytearray()
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > self.most_bytes:
                        raise self.error(f"{self.name}'s answer is too long")
        except httpx2.TimeoutException as exc:
            raise self.error(f"{self.name} did not answer in time") from exc
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise self.error(
                f"{self.name} cannot be reached", hint=f"check `{self.setting}.url`"
            ) from exc
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as exc:
            raise self.error(f"{self.name}'s answer is no JSON") from exc

    def _refusal(self, status: int) -> DiscoveryError:
        hint = f"check `{self.setting}.apiKey`" if status in _REFUSED else ""
        hint = "it is asked too often" if status == _TOO_OFTEN else hint
        return self.error(f"{self.name} answered with status {status}", hint=hint)


class HttpEmbedder:
    """Made with a client whose time limits are set; the client's owner closes it."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        url: str,
        *,
        model: str,
        key: str = "",
        dimensions: int = 0,
    ) -> None:
        self._endpoint = ModelEndpoint(
            client,
            f"{url.rstrip('/')}/embeddings",
            key,
            "the embedder",
            "search.embeddings",
            EmbeddingError,
            _MOST_BYTES,
        )
        self._asked: JSONObject = {"model": model, "encoding_format": "float"}
        if dimensions:
            self._asked["dimensions"] = dimensions
        self.dimensions = dimensions or None
        host = httpx2.URL(url).copy_with(username=None, password=None, query=None, fragment=None)
        self.model = f"http:{host}:{model}:{dimensions}"

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        answer = await self._endpoint.post({**self._asked, "input": list(texts)})
        vectors = _vectors(answer, len(texts))
        if self.dimensions is None and vectors:
            self.dimensions = len(vectors[0])
        return vectors


def _vectors(answer: JSONValue, count: int) -> list[Vector]:
    """The vectors, put in the order of their `index`, which need not be that of the answer."""
    try:
        rows = sorted(answer["data"], key=lambda row: row["index"])
        vectors = [[float(x) for x in row["embedding"]] for row in rows]
        order = [row["index"] for row in rows]
    except (KeyError, TypeError, ValueError, OverflowError) as exc:
        raise EmbeddingError("the embedder's answer holds no vectors") from exc
    if order != list(range(count)):
        raise EmbeddingError(f"the embedder was asked for {count} vectors and gave {len(order)}")
    return list(vectors)
