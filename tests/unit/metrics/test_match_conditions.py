"""Metrics of policies and match conditions are those of kube-apiserver, and bounded, whatever their names.

Sources: k8s.io/apiserver, pkg/admission/metrics; NewMatcher in pkg/admission/plugin/policy.
"""

from __future__ import annotations

import pytest

from apiserver.admission.policies.budget import ConditionsCheck
from apiserver.metrics.match_conditions import NAMES_MAX, OTHER, WEBHOOK, MatchConditionMetrics
from apiserver.metrics.policies import PAIRS_MAX, PolicyMetrics


def test_so_many_names_have_series_and_all_others_one() -> None:
    metrics = MatchConditionMetrics()
    for number in range(NAMES_MAX + 10):
        metrics.excluded(f"w{number}", WEBHOOK, "admit", "CREATE")
    metrics.excluded("w0", WEBHOOK, "admit", "CREATE")
    *_, exclusions = metrics.families()
    lines = list(exclusions.series)
    assert len(lines) == NAMES_MAX + 1
    name = "apiserver_admission_match_condition_exclusions_total"
    assert f'{name}{{kind="webhook",name="w0",operation="CREATE",type="admit"}} 2\n' in lines
    assert f'{name}{{kind="webhook",name="{OTHER}",operation="CREATE",type="admit"}} 10\n' in lines


@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_both_kinds_of_policies_have_the_same_step(kind: str) -> None:
    metrics = MatchConditionMetrics()
    policies = PolicyMetrics(kind, metrics)
    check = ConditionsCheck("p", is_met=False, failure="", errors=2, seconds=0.02)
    policies.observe_conditions("CREATE", check)
    durations, errors, _ = metrics.families()
    labels = 'kind="policy",name="p",operation="CREATE",type="validate"'
    (text,) = durations.series
    buckets = dict(
        line.removeprefix(f"{durations.name}_bucket{{{labels},le=").split("} ")
        for line in text.splitlines()
        if "_bucket" in line
    )
    assert buckets == {
        **dict.fromkeys(('"0.001"', '"0.005"', '"0.01"'), "0"),
        **dict.fromkeys(('"0.025"', '"0.1"', '"0.2"', '"0.25"', '"+Inf"'), "1"),
    }
    assert list(errors.series) == [f"{errors.name}{{{labels}}} 2\n"]


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
