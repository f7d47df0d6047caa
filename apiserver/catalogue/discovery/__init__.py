"""The group `discovery.k8s.io`: where services are found, not what the server serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.discovery import endpoint_slices
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.vocabulary import Document


def types() -> tuple[BuiltinType, ...]:
    return (
        BuiltinType(
            "discovery.",
            "v1",
            "endpointslices",
            "EndpointSlice",
            "io.k8s.api.discovery.v1.EndpointSlice",
            strategy=Strategy(
                validate=endpoint_slices.validate_endpoint_slice,
                update=UpdateStrategy(
                    endpoint_slices.prepare_endpoint_slice_update,
                    endpoint_slices.validate_endpoint_slice_update,
                ),
                has_generation=True,
            ),
            columns=columns(
                Column(
                    "AddressType",
                    field_cell("addressType"),
                    description="What the addresses are: IPv4, IPv6, or domain names (FQDN).",
                ),
                Column("Ports", _ports, description="The ports of every endpoint, the first few of them."),
                Column("Endpoints", _endpoints, description="The addresses, the first few of them."),
                AGE,
            ),
        ),
    )


_SHOWN_MAX: Final = 3


def _ports(document: Document, now: float) -> str:
    ports = document.get("ports") or ()
    return _some([str(port["port"]) if "port" in port else port.get("name") or "*" for port in ports])


def _endpoints(document: Document, now: float) -> str:
    endpoints = document.get("endpoints") or ()
    return _some([address for endpoint in endpoints for address in endpoint.get("addresses") or ()])


def _some(texts: Sequence[str]) -> str:
    shown = ",".join(texts[:_SHOWN_MAX])
    hidden = len(texts) - _SHOWN_MAX
    return f"{shown} + {hidden} more..." if hidden > 0 else shown or "<unset>"
