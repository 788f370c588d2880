"""The mirrors of the engine and its parts: each verb waits for the same verb on the loop."""

from discovery_engine.agent.agent_tool import AgentTool, ToolCalls
from discovery_engine.agent.toolset import Toolset
from discovery_engine.engine import Engine, ScopedEngine
from discovery_engine.engine.owner.agent_requests import AgentRequests
from discovery_engine.engine.owner.approvals import Approvals
from discovery_engine.engine.owner.catalog_lock import CatalogLock
from discovery_engine.engine.owner.configuration_changes import ConfigurationChanges
from discovery_engine.engine.owner.configured_webhooks import Webhooks
from discovery_engine.engine.owner.fleet import Fleet
from discovery_engine.engine.owner.owned_servers import OwnedServers
from discovery_engine.engine.owner.presets import Presets
from discovery_engine.engine.owner.reviews import Reviews
from discovery_engine.engine.owner.server_logins import ServerLogins
from discovery_engine.engine.server_offerings import ServerOfferings
from discovery_engine.evaluation.calibration import Calibrator
from discovery_engine.evaluation.enrichment.enrichment import Enrichment
from discovery_engine.evaluation.eval_cases import EvalCases
from discovery_engine.marketplace.installer.installer import Installer
from discovery_engine.marketplace.marketplace import Marketplace
from discovery_engine.store.call_log.call_log import CallLog
from discovery_engine.sync.blocking_call import mirror

PARTS = (
    AgentRequests,
    Approvals,
    Calibrator,
    CallLog,
    CatalogLock,
    ConfigurationChanges,
    Enrichment,
    EvalCases,
    Fleet,
    Installer,
    Marketplace,
    OwnedServers,
    Presets,
    Reviews,
    ServerLogins,
    ServerOfferings,
    Webhooks,
)
"""The parts of the engine that have verbs."""
for _part in PARTS:
    mirror(_part)

SyncTool = mirror(AgentTool, name="SyncTool")
ToolsetMirror = mirror(Toolset, ToolCalls)
ScopedEngineMirror = mirror(ScopedEngine)
EngineMirror = mirror(Engine, ScopedEngine)
