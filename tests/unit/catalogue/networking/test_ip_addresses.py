"""IPAddresses. Source: pkg/apis/networking/validation (release 1.34); row T25."""

from __future__ import annotations

from typing import Final

from tests.unit.catalogue.served_kinds import ServedKind

PARENT: Final = {"resource": "services", "namespace": "default", "name": "s"}
IP_ADDRESS: Final = ServedKind(
    "ipaddresses.networking.k8s.io", {"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": PARENT}}
)


def test_an_address_belongs_to_something_for_ever() -> None:
    assert IP_ADDRESS.create().errors == []
    assert IP_ADDRESS.cells()["ParentRef"] == "services/default/s"
    assert IP_ADDRESS.create({"spec.parentRef": None}).texts == ["spec.parentRef: Required value"]
    assert IP_ADDRESS.update({"spec.parentRef.group": ""}).errors == []
    (text,) = IP_ADDRESS.update({"spec.parentRef.name": "t"}).texts
    assert text.endswith("field is immutable")
