"""To which addresses webhooks may be sent."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from typing import Final

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from apiserver.cli.config import Config
from apiserver.webhooks.addresses import AddressDenied, AddressRules, CheckedResolver

RULES: Final = AddressRules(Config().admission.webhook_deny_cidrs)

DENIED: Final = {
    "metadata of most clouds": "169.254.169.254",
    "of containers of one": "169.254.170.2",
    "link-local": "fe80::1",
    "link-local, with an interface": "fe80::1%eth0",
    "metadata over IPv6": "fd00:ec2::254",
    "written out": "fd00:0ec2:0:0:0:0:0:0254",
    "IPv4 in IPv6": "::ffff:169.254.169.254",
    "in hexadecimal": "::ffff:a9fe:a9fe",
    "through NAT64": "64:ff9b::a9fe:a9fe",
}


@pytest.mark.parametrize("address", DENIED.values(), ids=DENIED)
def test_what_is_denied_by_default(address: str) -> None:
    for check in (RULES.require_allowed, RULES.require_host):
        with pytest.raises(AddressDenied, match="is denied by --webhook-deny-cidrs"):
            check(address)


ALLOWED: Final = (
    "127.0.0.1",
    "::1",
    "10.0.0.1",
    "169.253.255.255",
    "fd00:ec2::253",
    "64:ff9b::a00:1",
    "8.8.8.8",
)


@pytest.mark.parametrize("address", ALLOWED)
def test_what_is_not(address: str) -> None:
    RULES.require_allowed(address)
    RULES.require_host(address)


@pytest.mark.parametrize("host", ["convert.default.svc", "localhost", "0xa9fea9fe", "a1.example.com"])
def test_names_are_checked_when_they_are_resolved(host: str) -> None:
    RULES.require_host(host)


@pytest.mark.parametrize(
    "host", ["0251.0376.0251.0376", "2852039166", "169.254.43518", "169.254", ":::", "1.2.3.4.5"]
)
def test_addresses_that_only_c_libraries_understand_are_refused(host: str) -> None:
    with pytest.raises(ValueError, match=r"does not appear to be|not permitted"):
        RULES.require_host(host)


def test_no_address_is_denied_if_none_is_named() -> None:
    AddressRules(()).require_allowed("169.254.169.254")


class Names(AbstractResolver):
    """Resolves a name to the next of its answers."""

    def __init__(self, answers: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._answers = {name: iter(each) for name, each in answers.items()}
        self.is_closed = False

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=int(family), proto=0, flags=0)
            for address in next(self._answers[host])
        ]

    async def close(self) -> None:
        self.is_closed = True


async def test_names_are_resolved_to_what_is_not_denied() -> None:
    names = Names({"both": [["169.254.169.254", "10.0.0.1"]], "none": [[]], "bad": [["fe80::1"]]})
    resolver = CheckedResolver(RULES, names)
    assert [each["host"] for each in await resolver.resolve("both", 443)] == ["10.0.0.1"]
    assert await resolver.resolve("none", 443) == []
    with pytest.raises(AddressDenied, match="dial tcp fe80::1: "):
        await resolver.resolve("bad", 443)
    await resolver.close()
    assert names.is_closed


async def test_each_address_that_a_name_gets_is_checked() -> None:
    """DNS rebinding: a name that was harmless when somebody looked."""
    resolver = CheckedResolver(RULES, Names({"a": [["10.0.0.1"], ["169.254.169.254"]]}))
    assert [each["host"] for each in await resolver.resolve("a", 443)] == ["10.0.0.1"]
    with pytest.raises(AddressDenied):
        await resolver.resolve("a", 443)


def test_the_default_is_link_local() -> None:
    assert ipaddress.ip_network("169.254.0.0/16") in Config().admission.webhook_deny_cidrs
