"""Metrics of admission policies have a bound, whatever names clients give."""

from __future__ import annotations

from apiserver.metrics.policies import OTHER, PAIRS_MAX, PolicyMetrics


def test_so_many_policies_have_series_and_all_others_one() -> None:
    metrics = PolicyMetrics("mutating")
    for number in range(PAIRS_MAX + 10):
        metrics.observe(f"p{number}", "b", ("no_error",), 0.001)
    metrics.observe("p0", "b", ("no_error",), 0.001)
    total, _ = metrics.families()
    lines = list(total.series)
    assert len(lines) == PAIRS_MAX + 1
    name = "apiserver_mutating_admission_policy_check_total"
    assert f'{name}{{error_type="no_error",policy="p0",policy_binding="b"}} 2\n' in lines
    assert f'{name}{{error_type="no_error",policy="{OTHER}",policy_binding="{OTHER}"}} 10\n' in lines
