"""Whether a fleet kept its promises, from what the database saw and what its servers serve."""

from __future__ import annotations

import statistics

from msgspec import Struct

from tests.fleet.audit import Step, delays, early_claims, fenced_writes, lost_claims
from tests.fleet.chaos import SCOPE, Chaos, World


class Judgement(Struct, frozen=True):
    wrong: list[str]
    """What must not be, in words; empty if all is well."""
    claims: int
    taken_over: int
    """Claims that ended with another worker's claim of the same server."""
    waits: list[float]
    """Seconds from when a server could be claimed to its claim, less those without a database.

    Those of the first listing and of the last, when all servers are due at once, are left out:
    they depend on how many servers the machine can list.
    """
    capacity: float
    """Servers that all workers listed in a second while all servers were due at once."""


def quantiles(values: list[float]) -> tuple[float, float, float]:
    """The median, the 99th percentile and the most."""
    return statistics.median(values), statistics.quantiles(values, n=100)[98], max(values)


def judge(world: World, chaos: Chaos) -> Judgement:
    """Of a fleet that is calm."""
    steps, writes = world.audit.steps(), world.audit.writes()
    waits = [
        _worked(chaos, due, claimed)
        for _, due, claimed in delays(steps)
        if chaos.began < due < chaos.calmed[0]
    ]
    wrong = [
        *(f"written without a claim: {one}" for one in fenced_writes(steps, writes)),
        *(f"claimed before the lease of another ended: {one}" for one in early_claims(steps)),
        *_lost_servers(world, chaos),
        *_outdated_listings(world),
    ]
    claims = sum(one.is_claim for one in steps)
    return Judgement(wrong, claims, lost_claims(steps), waits, _capacity(chaos, steps))


def _capacity(chaos: Chaos, steps: list[Step]) -> float:
    began, ended = chaos.calmed
    listed = sum(one.old_state == "processing" and began < one.at <= ended for one in steps)
    return listed / (ended - began)


def _lost_servers(world: World, chaos: Chaos) -> list[str]:
    jobs = {str(job.server): job.state for job in chaos.jobs()}
    lost = [f"{name} has no job" for name in world.servers if name not in jobs]
    return lost + [f"{name} is {state}" for name, state in jobs.items() if state != "enabled"]


def _outdated_listings(world: World) -> list[str]:
    snapshot = world.store.load(SCOPE)
    listed: dict[str, set[str]] = {name: set() for name in world.servers}
    for entry in snapshot.catalog if snapshot else ():
        listed[entry.key.server].add(entry.key.tool)
    return [
        f"{name} has {sorted(server.tools)}, and {sorted(listed[name])} is saved of it"
        for name, server in world.servers.items()
        if set(server.tools) != listed[name]
    ]


def _worked(chaos: Chaos, began: float, ended: float) -> float:
    """Seconds of a time in which workers could reach the database."""
    return max(ended - began - _without_database(chaos, began, ended), 0.0)


def _without_database(chaos: Chaos, began: float, ended: float) -> float:
    """Seconds of a time in which workers could not reach the database."""
    pairs = ((max(began, down), min(ended, up)) for down, up in chaos.outages)
    return sum(max(up - down, 0.0) for down, up in pairs)
