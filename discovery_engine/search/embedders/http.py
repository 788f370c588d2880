"""Embeddings over HTTP by OpenAI's protocol: OpenAI itself, Ollama, TEI and others.

The answer is untrusted: it is read up to a size limit, and nothing of it is shown but the
number of its status.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import httpx2

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.search.embedders.embedder import EmbeddingError, Vector

_MOST_BYTES = 64 * 1024 * 1024  # a batch of 2,048 vectors of 1,536 numbers takes 60 MB as text
_TOO_OFTEN = 429
_REFUSED = (401, 403)


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
        self._client = client
        self._address = f"{url.rstrip('/')}/embeddings"
        self._asked: JSONObject = {"model": model, "encoding_format": "float"}
        if dimensions:
            self._asked["dimensions"] = dimensions
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.dimensions = dimensions or None
        host = httpx2.URL(url).copy_with(username=None, password=None, query=None, fragment=None)
        self.model = f"http:{host}:{model}:{dimensions}"

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        answer = await self._answer({**self._asked, "input": list(texts)})
        vectors = _vectors(answer, len(texts))
        if self.dimensions is None and vectors:
            self.dimensions = len(vectors[0])
        return vectors

    async def _answer(self, request: JSONObject) -> JSONValue:
        try:
            async with self._client.stream(
                "POST", self._address, json=request, headers=self._headers
            ) as response:
                if not response.is_success:
                    raise _refusal(response.status_code)
                content = bytearray()
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > _MOST_BYTES:
                        raise EmbeddingError("the embedder's answer is too long")
        except httpx2.TimeoutException as exc:
            raise EmbeddingError("the embedder did not answer in time") from exc
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise EmbeddingError(
                "the embedder cannot be reached", hint="check `search.embeddings.url`"
            ) from exc
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as exc:
            raise EmbeddingError("the embedder's answer is no JSON") from exc


def _refusal(status: int) -> EmbeddingError:
    hint = "check `search.embeddings.apiKey`" if status in _REFUSED else ""
    hint = "it is asked too often" if status == _TOO_OFTEN else hint
    return EmbeddingError(f"the embedder answered with status {status}", hint=hint)


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
