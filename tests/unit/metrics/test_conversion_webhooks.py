"""What is told of conversion webhooks: of so many definitions, and no more."""

from __future__ import annotations

from apiserver.custom_resources.serving.conversion_reviews import WebhookFailure
from apiserver.metrics.conversion_webhooks import OTHER, SERIES_MAX, ConversionWebhookMetrics


def lines(metrics: ConversionWebhookMetrics) -> list[str]:
    return "".join(line for family in metrics.families() for line in family.series).splitlines()


def test_calls_and_conversions() -> None:
    metrics = ConversionWebhookMetrics()
    metrics.called(0.3)
    metrics.called(2, WebhookFailure.CALL)
    metrics.converted("widgets.example.com", ("v1", "v2"), 0.3, succeeded=True)
    told = lines(metrics)
    calls = "apiserver_conversion_webhook_request_total"
    failed = 'failure_type="conversion_webhook_call_failure",result="failure"'
    for line in (
        f'{calls}{{failure_type="",result="success"}} 1',
        f"{calls}{{{failed}}} 1",
        f"apiserver_conversion_webhook_duration_seconds_sum{{{failed}}} 2",
        (
            'apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="widgets.example.com",'
            'from_version="v1",succeeded="true",to_version="v2"} 1'
        ),
    ):
        assert line in told


def test_definitions_have_a_bound() -> None:
    metrics = ConversionWebhookMetrics()
    for number in range(2 * SERIES_MAX):
        metrics.converted(f"c{number}.example.com", ("v1", "v2"), 0.3, succeeded=True)
    counts = [line for line in lines(metrics) if "_count{" in line]
    assert len(counts) == SERIES_MAX + 1
    assert sum(int(line.split()[-1]) for line in counts) == 2 * SERIES_MAX
    assert f'crd_name="{OTHER}"' in counts[-1]
