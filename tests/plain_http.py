"""HTTP clients of programs on this machine."""

from __future__ import annotations

import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""`verify` of a client that asks without TLS: it would read the authorities of the system first,
which takes 30 ms of CPU each time, 64 times to find out where a balancer leads whom."""
