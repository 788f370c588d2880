"""The owner's reranker: a model at an address that orders the first tools of an answer.

The answer of a search never waits for it longer than `search.reranker.timeout`. After a failure it
is left out for a while, and the first order is sent. The address is asked for nothing but the
request and the texts of tools that its caller may see, and its answer is untrusted.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import anyio
import anyio.to_thread
from msgspec import Struct

from discovery_engine.errors import DiscoveryError
from discovery_engine.secrets.references import MalformedReferenceError, UnsetReference
from discovery_engine.secrets.resolver import SecretResolver, resolve

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue
    from discovery_engine.catalog import Entry
    from discovery_engine.config.settings import RerankerSettings, Settings
    from discovery_engine.search.embedders.http import ModelEndpoint
    from discovery_engine.tools.model import ToolKey

logger = logging.getLogger(__name__)

RERANKED = 10
"""The most tools that are ordered."""
_MOST_BYTES = 1024 * 1024  # some addresses send all texts back
_FIRST_PAUSE = 1.0  # seconds after a failure; doubled each time
_LONGEST_PAUSE = 300.0


class RerankerError(DiscoveryError):
    """The reranker gives no order; the message has the cause, the hint the owner's next step."""

    code: ClassVar[str] = "RERANKER_ERROR"


class _Opened(Struct, frozen=True):
    settings: RerankerSettings
    endpoint: ModelEndpoint


class Reranking:
    """Orders the first hits by the reranker of the settings; a failure is followed by a pause."""

    def __init__(self, secrets: SecretResolver) -> None:
        self._secrets = secrets
        self._opened: _Opened | None = None
        self._opening = threading.Lock()
        self._pause = 0.0
        self._retry_at = -math.inf

    def is_usable(self, settings: Settings) -> bool:
        """Return whether there is a reranker that did not fail just now."""
        is_allowed = settings.search.reranker.is_on and not settings.is_untrusted_origin
        return is_allowed and time.monotonic() >= self._retry_at

    async def order(
        self, query: str, entries: Sequence[Entry], settings: Settings
    ) -> Sequence[ToolKey]:
        """Return the keys of tools, the best first; none if the reranker fails or is late."""
        if len(entries) < 2:  # noqa: PLR2004 - one tool has no order
            return ()
        # With an embedder search has imported it already; others start without it.
        from discovery_engine.engine.vector_cache import embedding_text  # noqa: PLC0415

        texts = [
            embedding_text(entry.tool, settings.contexts.get(entry.tool.server, ""))
            for entry in entries
        ]
        try:
            order = await self.ask(query, texts, settings)
        except RerankerError as error:
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            self._retry_at = time.monotonic() + self._pause
            logger.warning("Tools keep their order for %g s: %s", self._pause, error)
            return ()
        self._pause = 0.0
        return [entries[place].key for place in order]

    async def ask(self, query: str, texts: Sequence[str], settings: Settings) -> list[int]:
        """Return the places of texts, that of the best first, within the time limit.

        Raises:
            RerankerError: If the address does not answer in time, or with no order.
        """
        reranker = settings.search.reranker
        request = {"query": query, "documents": [*texts], "top_n": len(texts)}
        if reranker.model:
            request["model"] = reranker.model
        with anyio.move_on_after(reranker.timeout):
            # A library and certificates are loaded first, which may take as long as the limit; the
            # thread goes on then, and the next search has them.
            open_endpoint = partial(self._open, settings)
            endpoint = await anyio.to_thread.run_sync(open_endpoint, abandon_on_cancel=True)
            return _order(await endpoint.post(request), len(texts))
        hint = "for a slow one raise `search.reranker.timeout`"
        raise RerankerError(f"no answer within {reranker.timeout:g} s", hint=hint)

    async def aclose(self) -> None:
        if self._opened:
            await self._opened.endpoint.client.aclose()

    def _open(self, settings: Settings) -> ModelEndpoint:
        reranker = settings.search.reranker
        with self._opening:
            if self._opened is None or self._opened.settings != reranker:
                self._opened = _Opened(reranker, self._endpoint(reranker, settings.path))
            return self._opened.endpoint

    def _endpoint(self, reranker: RerankerSettings, path: str | None) -> ModelEndpoint:
        import httpx2  # noqa: PLC0415 - slow to load, and most searches do without

        from discovery_engine.config.syntax import mounts_for  # noqa: PLC0415
        from discovery_engine.search.embedders.http import ModelEndpoint  # noqa: PLC0415

        folder = str(Path(path).parent) if path else "."
        try:
            url = resolve(reranker.url, self._secrets, base_dir=folder)
            key = resolve(reranker.api_key, self._secrets, base_dir=folder)
        except (UnsetReference, MalformedReferenceError) as error:
            hint = "give it a value, then reload"
            raise RerankerError(f"search.reranker: {error}", hint=hint) from error
        # No compression: a small answer must not become a large one.
        client = httpx2.AsyncClient(
            timeout=reranker.timeout,
            headers={"Accept-Encoding": "identity"},
            mounts=mounts_for(url),
        )
        return ModelEndpoint(
            client,
            f"{url.rstrip('/')}/rerank",
            key,
            "the reranker",
            "search.reranker",
            RerankerError,
            _MOST_BYTES,
        )


def _order(answer: JSONValue, count: int) -> list[int]:
    """Return the places by falling score; those that the answer leaves out come last."""
    try:
        rows = [(row["index"], float(row["relevance_score"])) for row in answer["results"]]
        scores = dict(rows)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RerankerError("the reranker's answer has no scores") from error
    is_whole = len(scores) == len(rows) and set(scores) <= set(range(count))
    if not (is_whole and scores and all(map(math.isfinite, scores.values()))):
        raise RerankerError("the reranker's answer has places or scores that cannot be")
    return sorted(range(count), key=lambda place: (-scores.get(place, -math.inf), place))
