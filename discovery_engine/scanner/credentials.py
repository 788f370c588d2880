"""Credentials that stand in plain text, known by the form their issuers give them."""

from __future__ import annotations

import re

_KEY = re.compile(
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_\w{60,}|\bglpat-[\w-]{20,}"
    r"|\bxox[abeprs]-[A-Za-z0-9-]{20,}"
    r"|\bsk-(?:proj-|ant-|live-)?[A-Za-z0-9_-]{30,}"
    r"|\b[rs]k_live_[A-Za-z0-9]{16,}"
    r"|\bAIza[A-Za-z0-9_-]{35}"
    r"|\bnpm_[A-Za-z0-9]{36}|\bhf_[A-Za-z0-9]{30,}"
    r"|-----BEGIN (?:[A-Z]{2,10} )?PRIVATE KEY-----\s{0,4}[A-Za-z0-9+/]{16}"
    r"|\b[a-z][a-z0-9+]{2,15}://[^\s:/@<>{}$]{1,64}:[^\s:/@<>{}$]{6,64}@[\w.-]{3,}"
)
MARKS = (
    *("AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox"),
    *("sk-", "k_live_", "AIza", "npm_", "hf_", "PRIVATE KEY", "://"),
)
"""One of these is in any of them; most texts hold none."""
_SAMPLE = re.compile(
    r"example|sample|dummy|fake|placeholder|your|xxxx|\*\*\*|\.\.\.|1234567|abcdef|user:pass"
    r"|:password@|localhost|(.)\1{6}",
    re.IGNORECASE,
)


def credential_in(text: str) -> re.Match[str] | None:
    """The first credential of a text that is no sample from a manual."""
    if not any(mark in text for mark in MARKS):
        return None
    for found in _KEY.finditer(text):
        if not _SAMPLE.search(found[0]):
            return found
    return None
