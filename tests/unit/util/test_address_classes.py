from __future__ import annotations

import pytest

from discovery_engine._util.address_classes import (
    address_class,
    is_private_name,
    reachable_classes,
)
from tests.rows import rows


@pytest.mark.requirement("MKT-20")
@rows(
    ("addresses", "found"),
    [
        ("1.1.1.1 8.8.8.8 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808", "public"),
        ("127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1", "loopback"),
        ("10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 fc00::1 fd12::1", "private"),
        ("::ffff:10.0.0.1 64:ff9b::a00:1", "private"),
        (
            "169.254.169.254 ::ffff:169.254.169.254 fe80::1 fe80::1%eth0 64:ff9b::a9fe:a9fe",
            "reserved",
        ),
        ("0.0.0.0 0.1.2.3 255.255.255.255 224.0.0.1 240.0.0.1 ff02::1 ::", "reserved"),
        ("192.0.0.192 192.0.0.9 192.0.2.1 192.88.99.1 198.18.0.1 203.0.113.5", "reserved"),
        ("2002:7f00:1:: 2001::1 2001:db8::1 3fff::1 5f00::1 fec0::1 ::7f00:1", "reserved"),
        ("::169.254.169.254 100::1 64:ff9b:1::1", "reserved"),
        ("localhost 127.1 0x7f000001 2130706433 0177.0.0.1 1.1.1.1.1 x", "reserved"),
    ],
)
def test_an_address_has_the_class_of_where_it_leads(addresses: str, found: str) -> None:
    assert {one: address_class(one) for one in addresses.split()} == dict.fromkeys(
        addresses.split(), found
    )


@pytest.mark.requirement("MKT-20")
@rows(
    ("host", "classes"),
    [
        ("registry.example.com", {"public"}),
        ("127.1", {"public"}),  # resolved, it is this machine, and refused
        ("localhost.example.com", {"public"}),
        ("127.0.0.1.nip.io", {"public"}),
        ("1.1.1.1", {"public"}),
        ("127.0.0.1", {"loopback"}),
        ("LOCALHOST.", {"loopback"}),
        ("::1", {"loopback"}),
        ("10.1.2.3", {"private"}),
        ("169.254.169.254", set()),
        ("0.0.0.0", set()),
        ("registry", {"public", "private", "loopback"}),
        ("registry.acme.internal", {"public", "private", "loopback"}),
    ],
)
def test_a_host_may_lead_where_its_form_says(host: str, classes: set[str]) -> None:
    assert reachable_classes(host, is_private=False) == classes


@pytest.mark.requirement("MKT-20")
def test_the_owner_may_say_that_a_name_is_of_a_private_network_and_never_reserved() -> None:
    assert reachable_classes("registry.acme.example", is_private=True) == {
        *("public", "private", "loopback"),
    }
    assert reachable_classes("169.254.169.254", is_private=True) == set()


def test_names_of_private_networks_have_one_label_or_a_known_suffix() -> None:
    names = ["nas", "a.lan", "a.home.arpa", "x.localhost", "a.example.com", "internal.example.com"]

    assert [is_private_name(name) for name in names] == [True, True, True, True, False, False]
