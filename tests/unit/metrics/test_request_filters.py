"""How long requests are in the filters that all of them pass.

Source: k8s.io/apiserver, pkg/endpoints/filterlatency: of most filters only what goes on is counted.
"""

from __future__ import annotations

from apiserver.auth.authz.attributes import Decision, Verdict
from apiserver.metrics.authentication import FAILURE, AuthenticationMetrics
from apiserver.metrics.authorization import AuthorizationMetrics
from apiserver.metrics.declarations import bounds_of
from apiserver.metrics.request_filters import FILTER_DURATIONS, ImpersonationMetrics, RequestFilterMetrics

NAME = "apiserver_request_filter_duration_seconds"


def test_filters_are_told_by_what_is_measured_anyhow() -> None:
    authentication = AuthenticationMetrics("server")
    authentication.identified("alice", 0.0002)
    authentication.refused(FAILURE, 0.02)
    authorization = AuthorizationMetrics("server")
    authorization.decided(Verdict(Decision.ALLOW), 0.002)
    authorization.decided(Verdict(Decision.NO_OPINION), 7.0)
    impersonation = ImpersonationMetrics()
    impersonation.attempted("legacy", True, 0.0001)
    impersonation.attempted("", False, 7.0)
    filters = RequestFilterMetrics(
        {
            "authentication": authentication.durations,
            "authorization": authorization.durations,
            "constrainedimpersonation": impersonation.durations,
            "priorityandfairness": lambda: (),
        }
    )
    (family,) = filters.families()
    assert family.name == NAME
    found = "".join(family.series).splitlines()
    counts = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in found}

    def buckets(name: str) -> list[float]:
        bounds = [str(each) for each in bounds_of(FILTER_DURATIONS)]
        return [counts[f'{NAME}_bucket{{filter="{name}",le="{bound}"}}'] for bound in (*bounds, "+Inf")]

    assert buckets("authentication") == [0, 1, 1, 1, 1, *[2] * 9]
    assert buckets("authorization") == [0, 0, 0, *[1] * 11]
    assert buckets("constrainedimpersonation") == [1] * 14
    assert counts[f'{NAME}_sum{{filter="authentication"}}'] == 0.0202
    assert not any("priorityandfairness" in line for line in found), "nothing has passed it"


def test_durations_by_result_have_their_own_buckets() -> None:
    """Those of k8s.io/apiserver, pkg/endpoints/filters/metrics.go: from 1 ms, doubled 14 times."""
    authentication, authorization = AuthenticationMetrics("server"), AuthorizationMetrics("server")
    authentication.identified("alice", 0.0002)
    authorization.decided(Verdict(Decision.ALLOW), 0.0002)
    impersonation = ImpersonationMetrics()
    impersonation.attempted("legacy", True, 0.0002)
    for metrics, name in (
        (authentication, "authentication_duration_seconds"),
        (authorization, "authorization_duration_seconds"),
        (impersonation, "apiserver_impersonation_attempts_duration_seconds"),
    ):
        (family,) = (each for each in metrics.families() if each.name == name)
        lines = [line for line in "".join(family.series).splitlines() if "_bucket" in line]
        assert len(lines) == 16
        assert 'le="0.001"} 1' in lines[0]
