"""Decides which addresses webhooks may have: not those that serve a machine's credentials.

A user who may configure a webhook chooses its URL, and the server calls it from its own network. The metadata
services of clouds answer any client that reaches their link-local addresses, and are denied by default
(`--webhook-deny-cidrs`). Names are resolved first, and the connection goes to exactly the address that was
checked, so that changing a name's address afterwards does not help an attacker.

An address is denied if any address that it leads to is denied: several forms of IPv6 addresses embed an IPv4
address, and a connection to an unspecified address (`0.0.0.0`, `::`) goes to the machine itself.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

from apiserver.golang.quoting import go_quote
from apiserver.meta.field_errors import truncated
from apiserver.meta.vocabulary import IPNetwork

WEBHOOK_FLAG: Final = "--webhook-deny-cidrs"
PROXY_FLAG: Final = "--proxy-deny-cidrs"

# What ends a host in a URL or means something there, so that another host would be asked than is checked.
_NOT_IN_HOSTS: Final = re.compile(r"[/?#@\\\[\]%\s\x00-\x1f\x7f]")
# The interface that an IPv6 address is on.
_ZONE: Final = re.compile(r"(?<=[0-9A-Fa-f:])%[\w.~-]+$")

_IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# The last 32 bits of their addresses are an IPv4 address, to which gateways and translators lead.
_TRANSLATED: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "64:ff9b::/96",  # RFC 6052
            "64:ff9b:1::/48",  # RFC 8215
            "::ffff:0:0:0/96",  # RFC 2765
            "::/96",  # RFC 4291, IPv4-compatible
        ),
    )
)
_LOOPBACK: Final = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))
_BROADCAST: Final = ipaddress.IPv4Address("255.255.255.255")


class AddressDenied(OSError):
    """An address is denied; the message is for the client.

    flag: the one that denies it.
    """

    def __init__(self, address: str, flag: str = WEBHOOK_FLAG) -> None:
        super().__init__(f"dial tcp {address}: address is denied by {flag}")


class NotProxyable(AddressDenied):
    """An address that means something else on each machine, or no single server."""

    def __init__(self) -> None:
        OSError.__init__(self, "address not allowed")


class InvalidHost(ValueError):
    """A text that is not a valid host name, whatever URL it would be part of."""

    def __init__(self, host: str) -> None:
        super().__init__(f"invalid host {go_quote(truncated(host))}")


class AddressRules:
    """The denied addresses. flag: the flag that denies them.

    only_proxyable: whether addresses that do not lead to a single other machine are denied, too.
    """

    def __init__(
        self, denied: Sequence[IPNetwork], flag: str = WEBHOOK_FLAG, *, only_proxyable: bool = False
    ) -> None:
        self._denied = tuple(denied)
        self._flag = flag
        self._only_proxyable = only_proxyable

    def require_allowed(self, address: str) -> None:
        """Checks one address.

        Raises AddressDenied, NotProxyable; ValueError for an invalid address.
        """
        for each in _meanings(ipaddress.ip_address(address)):
            if self._only_proxyable and not _is_proxyable(each):
                raise NotProxyable
            if any(each in network for network in self._denied):
                raise AddressDenied(address, self._flag)

    def require_host(self, host: str) -> None:
        """Check the host of a URL, if it is an address, as names are checked when they are resolved.

        Raises AddressDenied; InvalidHost for a text that a URL would parse as more than a host; ValueError
        for an address in a form that only C libraries know, as 0251.254.1.
        """
        if _NOT_IN_HOSTS.search(_ZONE.sub("", host) if ":" in host else host):
            raise InvalidHost(host)
        if is_address(host):
            self.require_allowed(host)


def is_address(host: str) -> bool:
    """Returns whether the host of a URL is an IP address, in any form, and not a name."""
    return ":" in host or host.replace(".", "").isdigit()


def _meanings(address: _IPAddress) -> Iterator[_IPAddress]:
    """Yields an address, and the addresses that it leads to."""
    yield address
    if address.is_unspecified:
        yield from _LOOPBACK
    if isinstance(address, ipaddress.IPv6Address):
        _, of_client = address.teredo or (None, None)
        for each in (address.ipv4_mapped, address.sixtofour, of_client):
            if each is not None:
                yield from _meanings(each)
        if any(address in network for network in _TRANSLATED):
            yield from _meanings(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))


def _is_proxyable(address: _IPAddress) -> bool:
    """Returns whether an address may be proxied to."""
    is_special = address.is_loopback or address.is_link_local or address.is_multicast
    return not (is_special or address.is_unspecified or address == _BROADCAST)


class CheckedResolver(AbstractResolver):
    """Resolves names, by another resolver, to the addresses that are not denied."""

    def __init__(self, rules: AddressRules, resolver: AbstractResolver) -> None:
        self._rules = rules
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Returns the addresses of a host that are not denied.

        Raises AddressDenied if all addresses are denied, NotProxyable if one is not proxyable, and OSError if
        there are none.
        """
        allowed: list[ResolveResult] = []
        denied: AddressDenied | None = None
        for found in await self._resolver.resolve(host, port, family):
            try:
                self._rules.require_allowed(found["host"])
            except NotProxyable:
                raise
            except AddressDenied as error:
                denied = error
            else:
                allowed.append(found)
        if denied is not None and not allowed:
            raise denied
        return allowed

    async def close(self) -> None:
        await self._resolver.close()
