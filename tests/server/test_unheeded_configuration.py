"""Configuration that is stored and not heeded says so to those who rely on it."""

from __future__ import annotations

import itertools
from typing import Any, Final

from tests.support.api import Api

APISERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
SERVICE: Final = {"name": "s", "namespace": "default"}
_numbers: Final = itertools.count(1)


def available(document: dict[str, Any]) -> tuple[str, str]:
    (condition,) = document["status"]["conditions"]
    assert condition["lastTransitionTime"]
    return condition["status"], condition["reason"]


def test_a_foreign_server_is_not_available(api: Api) -> None:
    """Row T15: requests are not forwarded; the condition says so, and follows who serves."""
    group = f"foreign{next(_numbers)}.example.com"
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}
    foreign = {
        "metadata": {"name": f"v1.{group}"},
        "spec": {**spec, "service": SERVICE, "insecureSkipTLSVerify": True},
    }
    path = f"{APISERVICES}/v1.{group}"
    assert available(api.post(APISERVICES, foreign).ok()) == ("False", "AggregationNotSupported")
    try:
        local = {"spec": {"service": None, "insecureSkipTLSVerify": None}}
        assert available(api.patch(path, local).ok()) == ("True", "Local")
        assert available(api.patch(path, {"spec": {"service": SERVICE}}).ok())[0] == "False"
        assert available(api.patch(path, {"spec": {"versionPriority": 11}}).ok())[0] == "False"
    finally:
        api.delete(path).ok()
