"""How many requests are forwarded at the same time, and whose they are."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from apiserver.errors import TooManyRequests
from apiserver.metrics.requests import RequestMetrics
from apiserver.reverse_proxy.backends import Backends
from apiserver.reverse_proxy.forwarder import Forwarder
from apiserver.reverse_proxy.headers import NO_OTHERS
from apiserver.vocabulary import UserInfo
from tests.unit.handlers.calls import call


def test_no_user_takes_all_places() -> None:
    metrics = RequestMetrics()
    forwarder = Forwarder(Backends(), NO_OTHERS, metrics, forwarded_max=10)
    alice, joe = (call("GET", "/api/v1/namespaces/ns/pods/p/proxy/x") for _ in range(2))
    joe.user = UserInfo("joe")
    with ExitStack() as places:
        for _ in range(8):
            places.enter_context(forwarder.place(alice))
        with pytest.raises(TooManyRequests):
            places.enter_context(forwarder.place(alice))
        places.enter_context(forwarder.place(joe))
        assert metrics.forwarded == 9
    assert metrics.forwarded == 0
    with forwarder.place(alice):
        pass
