"""QoS classes. Source: pkg/apis/core/helper/qos, ComputePodQOS."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.catalogue.core.pods.qos import qos_class
from tests.unit.catalogue.valid_pods import Document

# https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
BOTH: Final = {"cpu": "1", "memory": "1Gi"}
QOS: Final[dict[str, tuple[list[Document], str]]] = {
    "nothing asked for": ([{}], "BestEffort"),
    "other resources do not count": ([{"requests": {"example.com/gpu": "1"}}], "BestEffort"),
    "something asked for": ([{"requests": {"cpu": "1"}}], "Burstable"),
    "everything limited to what is asked for": ([{"limits": BOTH, "requests": BOTH}], "Guaranteed"),
    "limits alone": ([{"limits": BOTH}], "Burstable"),
    "one of two": ([{"limits": BOTH, "requests": BOTH}, {}], "Burstable"),
}


@pytest.mark.parametrize(("resources", "expected"), QOS.values(), ids=QOS)
def test_qos(resources: list[Document], expected: str) -> None:
    assert qos_class({"containers": [{"resources": each} for each in resources]}) == expected
