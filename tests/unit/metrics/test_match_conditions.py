"""Metrics of match conditions have a bound, whatever names clients give."""

from __future__ import annotations

from apiserver.metrics.match_conditions import NAMES_MAX, OTHER, WEBHOOK, MatchConditionMetrics


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
