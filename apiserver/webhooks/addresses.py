"""Decides to which addresses webhooks may be sent: not to those that hand out a machine's credentials.

Whoever may configure a webhook chooses its URL, and the server calls it from where it stands. The metadata
services of clouds answer whoever reaches their link-local addresses, and are denied by default
(`--webhook-deny-cidrs`). Names are resolved first, and the connection goes to the very address that was
checked: a name that stands for another address a moment later wins nothing.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

from apiserver.field_errors import truncated
from apiserver.golang.quoting import go_quote
from apiserver.vocabulary import IPNetwork

WEBHOOK_FLAG: Final = "--webhook-deny-cidrs"
PROXY_FLAG: Final = "--proxy-deny-cidrs"

# What ends a host in a URL or means something there, so that another host would be asked than is checked.
_NOT_IN_HOSTS: Final = re.compile(r"[/?#@\\\[\]%\s\x00-\x1f\x7f]")
# The interface that an IPv6 address is on.
_ZONE: Final = re.compile(r"(?<=[0-9A-Fa-f:])%[\w.~-]+$")

_IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# RFC 6052: the last 32 bits are an IPv4 address.
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class AddressDenied(OSError):
    """An address to which nothing is sent. The message is for the client. flag: the one that denies it."""

    def __init__(self, address: str, flag: str = WEBHOOK_FLAG) -> None:
        super().__init__(f"dial tcp {address}: address is denied by {flag}")


class InvalidHost(ValueError):
    """A text that is the name of no host, whatever a URL made of it would lead to."""

    def __init__(self, host: str) -> None:
        super().__init__(f"invalid host {go_quote(truncated(host))}")


class AddressRules:
    """Which addresses are denied. flag: the one that says so."""

    def __init__(self, denied: Sequence[IPNetwork], flag: str = WEBHOOK_FLAG) -> None:
        self._denied = tuple(denied)
        self._flag = flag

    def require_allowed(self, address: str) -> None:
        """Raises AddressDenied; ValueError for what is no address."""
        for each in _meanings(ipaddress.ip_address(address)):
            if any(each in network for network in self._denied):
                raise AddressDenied(address, self._flag)

    def require_host(self, host: str) -> None:
        """Check the host of a URL, if it is an address: names are checked when they are resolved.

        Raises AddressDenied; InvalidHost for what a URL would take for more than a host; ValueError for an
        address in a form that only C libraries know, as 0251.254.1.
        """
        if _NOT_IN_HOSTS.search(_ZONE.sub("", host) if ":" in host else host):
            raise InvalidHost(host)
        if is_address(host):
            self.require_allowed(host)


def is_address(host: str) -> bool:
    """Whether the host of a URL is an IP address, in whatever form, and no name."""
    return ":" in host or host.replace(".", "").isdigit()


def _meanings(address: _IPAddress) -> Iterator[_IPAddress]:
    """An address, and the IPv4 address that an IPv6 one stands for."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            yield address.ipv4_mapped
        elif address in _NAT64:
            yield ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)


class CheckedResolver(AbstractResolver):
    """Resolves names, by another resolver, to the addresses that are not denied."""

    def __init__(self, rules: AddressRules, resolver: AbstractResolver) -> None:
        self._rules = rules
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises AddressDenied if all addresses are denied, OSError if there are none."""
        allowed: list[ResolveResult] = []
        denied: AddressDenied | None = None
        for found in await self._resolver.resolve(host, port, family):
            try:
                self._rules.require_allowed(found["host"])
            except AddressDenied as error:
                denied = error
            else:
                allowed.append(found)
        if denied is not None and not allowed:
            raise denied
        return allowed

    async def close(self) -> None:
        await self._resolver.close()
