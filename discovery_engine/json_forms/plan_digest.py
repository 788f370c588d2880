"""The digest of a plan's JSON form, so that only what was shown is accepted.

    POST …/plan  ->  {…, "digest": "5f…"}      with_digest(form)
    POST …       <-  {…, "digest": "5f…"}      require_shown(form, digest, "installing 'files'")

The form is made anew when it is accepted; nothing of it is kept between the two requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.errors import PlanChangedError
from discovery_engine.tools.model import canonical_json, fingerprint

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject


def with_digest(form: JSONObject) -> JSONObject:
    """The form of a plan with its digest, which the request that accepts it must contain."""
    return {**form, "digest": _digest(form)}


def require_shown(form: JSONObject, digest: str, subject: str) -> None:
    """Check that a plan, made anew, has the digest of the one that was shown.

    Raises:
        PlanChangedError: If it has another one; `subject` is what is done, for instance
            `installing 'files'`.
    """
    if digest != _digest(form):
        raise PlanChangedError(subject)


def _digest(form: JSONObject) -> str:
    return fingerprint(canonical_json(form))
