"""A list of a team's own servers: YAML or JSON with a `server.json` for each.

    servers:
      - name: com.acme/files
        packages: [{registryType: npm, identifier: "@acme/files", version: 1.2.0}]
      - name: com.acme/docs
        remotes: [{type: streamable-http, url: "https://docs.acme.example/mcp"}]

A mistake costs only its entry, and is named with the line of that.
"""

from __future__ import annotations

from typing import Final

from discovery_engine.config.document.tree import Node
from discovery_engine.config.document.yaml_reader import read_document
from discovery_engine.errors import Diagnostic, Origin
from discovery_engine.marketplace import bounds
from discovery_engine.marketplace.entry import MarketplaceEntry
from discovery_engine.marketplace.server_json import MalformedEntryError, parse_server
from discovery_engine.marketplace.source import DocumentSource, SourceFailure, SourcePage

_CODE: Final = "MARKETPLACE_LIST_INVALID"
_VALUES = 200_000  # scalars; a thousand servers have a tenth of that
_HINT = "write each as its `server.json`, with name, and packages or remotes"


class ServerList(DocumentSource):
    """A source of type `file`."""

    def page(self, content: bytes, etag: str) -> SourcePage:
        document = read_document(content, size_limit=bounds.CATALOG_BYTES, value_limit=_VALUES)
        servers = document.root.child("servers") if document.root else None
        mistakes = [
            self._mistake(fault.at.line, fault.at.column, fault.message, fault.hint)
            for fault in document.faults
        ]
        if document.is_broken or servers is None or not isinstance(servers.value, list):
            first = mistakes[0] if mistakes else self._mistake(0, 0, "it has no list `servers`")
            reason = f"the list cannot be read: {first.message}"
            raise SourceFailure(_CODE, reason, hint=first.hint, origin=first.origin)
        entries: list[MarketplaceEntry] = []
        for _, node in servers.children():
            try:
                entry = parse_server(node.meant(has_numbers=False), origin=self.origin)
            except MalformedEntryError as error:
                mistakes.append(self._mistake_of(node, str(error)))
                continue
            entries.append(entry)
            for offer in entry.refused:
                reason = f"{offer.registry_type} {offer.identifier}: {offer.reason}"
                mistakes.append(self._mistake_of(node, f"{entry.name}: {reason}"))
        return SourcePage(tuple(entries), mistakes=tuple(mistakes), etag=etag, size=len(content))

    def _mistake_of(self, node: Node, message: str) -> Diagnostic:
        return self._mistake(node.start.line, node.start.column, message)

    def _mistake(self, line: int, column: int, message: str, hint: str = "") -> Diagnostic:
        origin = Origin(self.settings.path or self.settings.address, line, column)
        return Diagnostic(_CODE, message, hint or _HINT, self.settings.name, origin)
