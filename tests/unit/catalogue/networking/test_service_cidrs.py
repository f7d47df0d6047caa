"""ServiceCIDRs. Source: pkg/apis/networking/validation (release 1.34); row T25."""

from __future__ import annotations

from typing import Final

import pytest

from tests.unit.catalogue.served_kinds import ServedKind

SERVICE_CIDR: Final = ServedKind("servicecidrs.networking.k8s.io", {"spec": {"cidrs": ["10.0.0.0/24"]}})
CHANGES: Final[dict[str, tuple[list[str], list[str]]]] = {
    "nothing": (["10.0.0.0/24"], []),
    "a second family": (["10.0.0.0/24", "fd00::/64"], []),
    "another range": (["10.1.0.0/24"], ['spec.cidrs[0]: Invalid value: "10.1.0.0/24": field is immutable']),
    "a second range of the family": (
        ["10.0.0.0/24", "10.1.0.0/24"],
        [
            (
                'spec.cidrs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: may specify no more than one '
                "IP for "
                "each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
            )
        ],
    ),
    "no range": ([], ["spec.cidrs: Invalid value: []: field is immutable"]),
}


@pytest.mark.parametrize(("cidrs", "texts"), CHANGES.values(), ids=CHANGES)
def test_a_service_cidr_may_get(cidrs: list[str], texts: list[str]) -> None:
    assert SERVICE_CIDR.update({"spec.cidrs": cidrs}).texts == texts
