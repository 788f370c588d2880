"""The filter of system calls, run as the kernel runs it: on every machine, also on others."""

from __future__ import annotations

import errno
import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

if sys.platform != "linux":
    pytest.skip("only Linux has it", allow_module_level=True)

from discovery_engine.upstream.stdio.sandbox.confinement import MACHINES, seccomp_filter
from tests.rows import rows

X86, ARM = (0xC000003E, 0xC00000B7)
ARCHITECTURES = dict(zip(MACHINES, (X86, ARM), strict=True))
ALLOWED = 0x7FFF0000
SOCKET = {"x86_64": 41, "aarch64": 198}
CLONE = {"x86_64": 56, "aarch64": 220}
PRLIMIT = {"x86_64": 302, "aarch64": 261}
IOCTL = {"x86_64": 16, "aarch64": 29}
HARMLESS = {"x86_64": (0, 1, 9, 57, 59, 53, 257), "aarch64": (56, 63, 64, 221, 222, 199)}
UNIX, INET, INET6, NETLINK, PACKET, VSOCK = 1, 2, 10, 16, 17, 40


def verdict(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the kernel does with a call: the errno that it answers, or 0 if it is done."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *(a & (2**64 - 1) for a in padded))
    steps = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        match code:
            case 0x20:
                [accumulator] = struct.unpack_from("=I", data, value)
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x35:
                at += if_true if accumulator >= value else if_false
            case 0x45:
                at += if_true if accumulator & value else if_false
            case 0x06:
                return 0 if value == ALLOWED else value & 0xFFFF


def made(machine: str, *, internet: bool = False, unix: bool = False) -> bytes:
    return seccomp_filter(
        has_internet=internet, has_named_sockets=unix, has_truncate=True, machine=machine
    )


@pytest.mark.requirement("SBX-15")
@rows("machine", MACHINES)
@rows("internet", [False, True])
@rows("unix", [False, True])
def test_only_granted_families_of_sockets_exist(machine: str, internet: bool, unix: bool) -> None:
    program = made(machine, internet=internet, unix=unix)
    granted = {INET, INET6, NETLINK} if internet else set()
    granted |= {UNIX} if unix else set()

    for family in range(64):
        refused = verdict(program, ARCHITECTURES[machine], SOCKET[machine], family)
        assert refused == (0 if family in granted else errno.EACCES)


@pytest.mark.requirement("SBX-15")
@rows("machine", MACHINES)
def test_a_process_may_be_made_but_no_namespace_of_users(machine: str) -> None:
    program, architecture = made(machine), ARCHITECTURES[machine]

    assert verdict(program, architecture, CLONE[machine], 0x11) == 0
    assert verdict(program, architecture, CLONE[machine], 0x10000011) == errno.EPERM
    assert verdict(program, architecture, 435, 0x11) == errno.ENOSYS  # clone3: use clone


@pytest.mark.requirement("SBX-15")
@rows("machine", MACHINES)
def test_no_key_is_typed_into_a_terminal(machine: str) -> None:
    program, architecture = made(machine), ARCHITECTURES[machine]

    for request in (0x5412, 0x541C, 0x5412 | 1 << 32):  # the kernel reads 32 bits of it
        assert verdict(program, architecture, IOCTL[machine], 0, request) == errno.EPERM
    assert verdict(program, architecture, IOCTL[machine], 0, 0x5401) == 0


@pytest.mark.requirement("SBX-15")
@rows("machine", MACHINES)
def test_a_program_limits_itself_alone(machine: str) -> None:
    program, architecture = made(machine), ARCHITECTURES[machine]

    assert verdict(program, architecture, PRLIMIT[machine], 0, 7) == 0
    assert verdict(program, architecture, PRLIMIT[machine], 1234, 7) == errno.EPERM


@pytest.mark.requirement("SBX-15")
@rows("machine", MACHINES)
def test_usual_calls_are_done(machine: str) -> None:
    for number in HARMLESS[machine]:
        assert verdict(made(machine), ARCHITECTURES[machine], number) == 0


@pytest.mark.requirement("SBX-15")
@given(st.sampled_from(MACHINES), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_calls_of_another_architecture_are_refused(machine: str, other: int, number: int) -> None:
    if other == ARCHITECTURES[machine]:
        other = 0x40000003  # the 32-bit one of x86
    assert verdict(made(machine), other, number) == errno.EPERM


@pytest.mark.requirement("SBX-15")
@given(st.sampled_from(MACHINES), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_every_call_gets_a_verdict(machine: str, number: int, argument: int) -> None:
    found = verdict(made(machine), ARCHITECTURES[machine], number, argument, argument)

    assert found in (0, errno.EPERM, errno.ENOSYS, errno.EACCES)
    if number >= 0x40000000:
        assert found == errno.EPERM


def test_a_machine_of_unknown_numbers_has_no_filter() -> None:
    with pytest.raises(OSError, match="mips"):
        made("mips")
