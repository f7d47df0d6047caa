"""A line about a stall says which call it was, in words that cannot forge lines."""

from __future__ import annotations

import sys
from typing import Any, Final, cast

import pytest

from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.request_info import parse_target
from apiserver.endpoints.running_call import running_operation
from tests.support.in_process import resource

PODS: Final = "/api/v1/namespaces/a/pods"
CALLS: Final[dict[str, tuple[str, str, str]]] = {
    "a list": ("GET", PODS, "list pods"),
    "a subresource": ("PATCH", f"{PODS}/a/status", "patch pods/status"),
    "a path": ("GET", "/metrics", "GET /metrics"),
    "a path that forges lines": ("GET", "/a%0Ab", r"GET /a\nb"),
    "a long path": ("GET", "/" + "a" * 1000, "GET /" + "a" * 99),
}


def call(method: str, path: str) -> ApiCall:
    info = parse_target(method, path, False)
    served = resource("pods", "") if info.is_resource else None
    return ApiCall(cast(Any, None), info, {}, "", 0.0, cast(Any, None), resource=served)


@pytest.mark.parametrize(("method", "path", "expected"), CALLS.values(), ids=CALLS)
def test_the_operation(method: str, path: str, expected: str) -> None:
    def inner() -> str:
        return running_operation(sys._getframe())

    def middleware(call: ApiCall) -> str:
        assert call
        return inner()

    assert middleware(call(method, path)) == expected


def test_no_call() -> None:
    assert running_operation(sys._getframe()) == ""
