"""The registry: what is kept between runs, and shared among gateways.

It keeps, for each configuration (its *scope*), the catalog as it was last seen and what its owner
decided, so that the next start answers before any upstream is connected. Calls block: code in an
event loop makes them in a thread. All of them raise `RegistryError` if the registry cannot be used.

    StoredReader      what commands answer from: snapshots, uses, written requests
    StoredRecords     eras, presets, requests of agents, leases, vectors, webhooks
    StoredQueue       which servers workers list next, and what they may write about them
    StoredCatalog     settings and catalog, as one snapshot
    StoredDecisions   approvals, acceptances, losses of either; registered servers, and switches

Each is written once over `store.statements`. A back-end has transactions, and the feed of changes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from discovery_engine.store.stored_catalog import StoredCatalog
from discovery_engine.store.stored_decisions import StoredDecisions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from discovery_engine.store.postgres_gateways import PostgresGateways
    from discovery_engine.store.records import DecisionExport
    from discovery_engine.store.search_database import SearchDatabase


class Registry(StoredCatalog, StoredDecisions):
    search: SearchDatabase | None = None
    """Where tools can be searched; None if this registry is no database of PostgreSQL."""
    gateways: PostgresGateways | None = None
    """The state that gateways share; None if this is no database that they all may write."""

    @property
    def local(self) -> Registry:
        """The registry of this machine, for what no other one may share: eras."""
        return self

    @abstractmethod
    def changes(self) -> AsyncGenerator[None]:
        """Yield soon after another process has decided something, or had requests written.

        Of a registry that machines share also after it has saved what a server listed; of a file
        after a worker has.

        For ever.

        It yields once at first, for what was decided before it was called. Several decisions may
        be one change, and a change may turn out to be none or this process's own: who follows
        reads the decisions and compares. Unlike all else here it runs in the event loop; close it
        when it is not needed.
        """

    @abstractmethod
    def import_decisions(self, decisions: DecisionExport) -> bool:
        """Hold these decisions and no others, but for the acceptances that they follow.

        Returns False, and changes nothing, if these are not all that is held so far. A loss that is
        there counts until all are written.
        """
