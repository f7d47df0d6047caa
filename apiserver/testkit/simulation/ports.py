"""The ports of simulated pods, from a table of addresses in a stage or an annotation. Pure.

    ports: {80: "127.0.0.1:8080", 5432: "[::1]:5432"}

Users who can create pods choose these addresses, as users who can create EndpointSlices do. The server never
connects to those in `--proxy-deny-cidrs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from apiserver.schema.validation.checks import PORT_MAX
from apiserver.testkit.simulation.field_values import InvalidStage

PORTS_MAX: Final = 100
_HOST_LENGTH_MAX: Final = 253
_DIGITS_MAX: Final = len(str(PORT_MAX))


class HostPort(NamedTuple):
    """A TCP address. host: a name, or an IP address without brackets."""

    host: str
    port: int


def read_ports(value: object) -> Mapping[int, HostPort]:
    """Returns a table of ports. Raises InvalidStage."""
    if not isinstance(value, dict) or not value:
        raise InvalidStage((), "must be a mapping of ports to addresses")
    if len(value) > PORTS_MAX:
        raise InvalidStage((), f"must have at most {PORTS_MAX} items")
    found: dict[int, HostPort] = {}
    for key, text in value.items():
        port = parse_port(str(key)) if isinstance(key, str | int) and not isinstance(key, bool) else None
        if port is None or port in found:
            raise InvalidStage((f"{key!s:.100}",), f"must be a port from 1 to {PORT_MAX}, given only once")
        try:
            found[port] = _address(text)
        except InvalidStage as error:
            raise error.below((key,)) from None
    return found


def _address(text: object) -> HostPort:
    host, _, digits = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    port = parse_port(digits)
    if port is None or not 0 < len(host) <= _HOST_LENGTH_MAX:
        raise InvalidStage((), "must be an address with a port, like 127.0.0.1:8080 or [::1]:8080")
    return HostPort(host, port)


def parse_port(digits: str) -> int | None:
    """Returns the number of a port; None if it is invalid."""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
        return None
    return int(digits) if 0 < int(digits) <= PORT_MAX else None
