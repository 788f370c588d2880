"""What this system has to confine programs with, for tests to skip what cannot be shown here."""

from __future__ import annotations

from discovery_engine.upstream.stdio.sandbox.confinement import landlock_version
from discovery_engine.upstream.stdio.sandbox.means import Means, MeansState, find_means

__all__ = ["Means", "MeansState", "find_means", "landlock_version"]
