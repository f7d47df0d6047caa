"""Each alert fires when it should, and only then: promtool evaluates the rules on series of these tests."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import pytest

from tests.deploy.artefacts import ALERTS, alert_rules, jobs_in
from tests.deploy.helm import render

# The values of a series, one for each minute, by its name and labels. Alerts are evaluated in minute 60.
Series: TypeAlias = Mapping[str, str]
MINUTES: Final = 60
DAY_S: Final = 24 * 3600


class AlertCase(NamedTuple):
    """When an alert fires. labels: of the alert, without severity and job. silent: when it does not."""

    fires: Series
    labels: Mapping[str, str]
    summary: str
    silent: Mapping[str, Series]


def steady(value: float) -> str:
    return f"{value}+0x{MINUTES}"


def growing(per_minute: float) -> str:
    return f"0+{per_minute}x{MINUTES}"


def changed(before: str, after: str) -> str:
    """Values that change 5 minutes before the evaluation."""
    return f"{before}x{MINUTES - 5} {after}x5"


def apiserver(metric: str, instance: str = "a", /, **labels: str) -> str:
    """The name of a series of a replica."""
    labels = {"job": "apiserver", "instance": instance, **labels}
    return f"{metric}{{{','.join(f'{label}={json.dumps(value)}' for label, value in labels.items())}}}"


def etcd(metric: str, /, **labels: str) -> str:
    return apiserver(metric, "e", job="etcd", **labels)


def durations(metric: str, /, *, fast_le: str, slow_le: str, is_slow: bool, **labels: str) -> dict[str, str]:
    """A histogram of 100 durations a minute, all in one of two buckets."""
    return {
        apiserver(f"{metric}_bucket", le=fast_le, **labels): growing(0 if is_slow else 100),
        apiserver(f"{metric}_bucket", le=slow_le, **labels): growing(100),
        apiserver(f"{metric}_bucket", le="+Inf", **labels): growing(100),
    }


def requests(verb: str, resource: str, *, is_slow: bool, slow_le: str = "2") -> dict[str, str]:
    name = "apiserver_request_sli_duration_seconds"
    return durations(name, fast_le="1", slow_le=slow_le, is_slow=is_slow, verb=verb, resource=resource)


LAG: Final = apiserver("apiserver_watch_cache_lag_seconds")
AVAILABLE: Final = apiserver("apiserver_storage_available", storage_cluster_id="etcd-0")
REJECTIONS: Final = "apiserver_admission_webhook_rejection_count"
WEBHOOK: Final = {"name": "w.example.com", "type": "validating"}
CALLS_OF_WEBHOOKS: Final = "apiserver_admission_webhook_admission_duration_seconds"
KMS_CALLS: Final = "apiserver_envelope_encryption_kms_operations_latency_seconds_count"
MONITORED: Final = {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}
OF_A: Final = {"instance": "a"}
OF_E: Final = {"instance": "e"}

CASES: Final[Mapping[str, AlertCase]] = {
    "ApiserverGone": AlertCase(
        {apiserver("up"): steady(0)},
        {},
        "No replica of the API server responds",
        {"one of two replicas answers": {apiserver("up"): steady(0), apiserver("up", "b"): steady(1)}},
    ),
    "ApiserverReplicaDown": AlertCase(
        {apiserver("up"): steady(0), apiserver("up", "b"): steady(1)},
        OF_A,
        "a does not respond",
        {
            "it answers": {apiserver("up"): steady(1)},
            "a restart": {apiserver("up"): f"1+0x{MINUTES - 3} 0+0x3"},
        },
    ),
    "ApiserverRestarts": AlertCase(
        {apiserver("process_start_time_seconds"): "0+0x45 100+0x4 200+0x4 300+0x9"},
        OF_A,
        "a started 3 times in half an hour",
        {"an upgrade and a rollback": {apiserver("process_start_time_seconds"): "0+0x45 100+0x4 200+0x14"}},
    ),
    "ApiserverErrors": AlertCase(
        {
            apiserver("apiserver_request_total", code="200"): growing(98),
            apiserver("apiserver_request_total", code="503"): growing(2),
        },
        {},
        "2% of all requests fail",
        {
            "errors of clients": {
                apiserver("apiserver_request_total", code="200"): growing(50),
                apiserver("apiserver_request_total", code="404"): growing(50),
            },
            "a few errors": {
                apiserver("apiserver_request_total", code="200"): growing(999),
                apiserver("apiserver_request_total", code="500"): growing(1),
            },
        },
    ),
    "ApiserverThrottles": AlertCase(
        {apiserver("apiserver_request_total", code="429"): growing(1)},
        OF_A,
        "a rejects requests with 429",
        {
            "it did, an hour ago": {apiserver("apiserver_request_total", code="429"): steady(50)},
            "disruption budgets forbid evictions": {
                apiserver("apiserver_request_total", code="429", subresource="eviction"): growing(1)
            },
        },
    ),
    "ApiserverSlow": AlertCase(
        requests("PUT", "pods", is_slow=True),
        {"verb": "PUT", "resource": "pods"},
        "1 in 100 PUT requests for pods take more than 1.99s",
        {
            "requests are fast": requests("PUT", "pods", is_slow=False),
            "metrics and OpenAPI documents are slow": requests("GET", "", is_slow=True),
            "lists have more time": requests("LIST", "pods", is_slow=True),
        },
    ),
    "ApiserverSlowLists": AlertCase(
        requests("LIST", "pods", is_slow=True, slow_le="60"),
        {"resource": "pods"},
        "1 in 100 lists of pods take more than 59.41s",
        {"lists take two seconds": requests("LIST", "pods", is_slow=True)},
    ),
    "ApiserverStoreSlow": AlertCase(
        durations(
            "etcd_request_duration_seconds", fast_le="0.4", slow_le="0.6", is_slow=True, operation="get"
        ),
        {"instance": "a", "operation": "get"},
        "1 in 100 get calls from a to the store take more than 598ms",
        {
            "calls are fast": durations(
                "etcd_request_duration_seconds", fast_le="0.4", slow_le="0.6", is_slow=False, operation="get"
            )
        },
    ),
    "ApiserverStoreUnavailable": AlertCase(
        {AVAILABLE: steady(0)},
        {**OF_A, "storage_cluster_id": "etcd-0"},
        "a cannot read its store",
        {"it can": {AVAILABLE: steady(1)}, "it has not tried yet": {}},
    ),
    "ApiserverStoreFull": AlertCase(
        {apiserver("apiserver_storage_full", storage_cluster_id="etcd-0"): steady(1)},
        {**OF_A, "storage_cluster_id": "etcd-0"},
        "The store of a is full and refuses writes",
        {"it has space": {apiserver("apiserver_storage_full", storage_cluster_id="etcd-0"): steady(0)}},
    ),
    "ApiserverWatchCacheStuck": AlertCase(
        {LAG: growing(60), AVAILABLE: steady(1)},
        OF_A,
        "The watch cache of a is 1h 0m 0s behind the store",
        {
            "the lag is short": {LAG: steady(2), AVAILABLE: steady(1)},
            "the store cannot be read": {LAG: growing(60), AVAILABLE: steady(0)},
            # The revisions of its cache end; they are no lag.
            "a definition was deleted": {
                LAG: steady(0.01),
                apiserver("apiserver_watch_cache_resource_version", resource="pods"): growing(10),
                apiserver("apiserver_watch_cache_resource_version", resource="widgets"): "0+10x30 300+0x30",
            },
        },
    ),
    "ApiserverWatchCacheRefills": AlertCase(
        {apiserver("apiserver_watch_cache_refills_total"): growing(0.2)},
        OF_A,
        "The watch cache of a was refilled 6 times in half an hour. All watches ended each time",
        {
            "a refill": {apiserver("apiserver_watch_cache_refills_total"): changed("0+0", "1+0")},
            # What a start does to both counters.
            "five starts": {
                apiserver("apiserver_watch_cache_refills_total"): steady(0),
                apiserver("apiserver_watch_cache_initializations_total", resource="pods"): "1+0x40 "
                + "0 1 " * 5
                + "1+0x9",
            },
        },
    ),
    "ApiserverFewFilesLeft": AlertCase(
        {apiserver("process_open_fds"): steady(900), apiserver("process_max_fds"): steady(1000)},
        OF_A,
        "a uses 90% of its file descriptors",
        {
            "half of them": {
                apiserver("process_open_fds"): steady(500),
                apiserver("process_max_fds"): steady(1000),
            }
        },
    ),
    "ApiserverFewConnectionsLeft": AlertCase(
        {
            apiserver("apiserver_connections"): steady(9000),
            apiserver("apiserver_connections_max"): steady(10000),
        },
        OF_A,
        "a uses 90% of its connections",
        {
            "half of them": {
                apiserver("apiserver_connections"): steady(5000),
                apiserver("apiserver_connections_max"): steady(10000),
            },
            "there is no limit": {
                apiserver("apiserver_connections"): steady(9000),
                apiserver("apiserver_connections_max"): steady(0),
            },
        },
    ),
    "ApiserverConnectionsRefused": AlertCase(
        {apiserver("apiserver_connections_refused_total"): growing(1)},
        OF_A,
        "a refuses connections",
        {"it did, an hour ago": {apiserver("apiserver_connections_refused_total"): steady(50)}},
    ),
    "ApiserverWatchesRefused": AlertCase(
        {apiserver("apiserver_watches_refused_total"): growing(1)},
        OF_A,
        "a rejects watches",
        {"it did, an hour ago": {apiserver("apiserver_watches_refused_total"): steady(50)}},
    ),
    "ApiserverTlsHandshakeErrors": AlertCase(
        {apiserver("apiserver_tls_handshake_errors_total"): growing(120)},
        OF_A,
        "2 TLS handshakes per second fail at a",
        {"a probe each 10 seconds": {apiserver("apiserver_tls_handshake_errors_total"): growing(6)}},
    ),
    "ApiserverMemory": AlertCase(
        {
            apiserver("process_resident_memory_bytes"): steady(1.3e9),
            apiserver("apiserver_memory_limit_bytes"): steady(2e9),
        },
        OF_A,
        "a uses 65% of its memory limit",
        {
            "half of it": {
                apiserver("process_resident_memory_bytes"): steady(1e9),
                apiserver("apiserver_memory_limit_bytes"): steady(2e9),
            },
            "there is no limit": {
                apiserver("process_resident_memory_bytes"): steady(8e9),
                apiserver("apiserver_memory_limit_bytes"): steady(0),
            },
        },
    ),
    "ApiserverMemoryPressure": AlertCase(
        {apiserver("apiserver_memory_pressure"): steady(1)},
        OF_A,
        "a rejects large requests because memory is short",
        {
            "there is none": {apiserver("apiserver_memory_pressure"): steady(0)},
            "for a moment": {apiserver("apiserver_memory_pressure"): f"0+0x{MINUTES - 2} 2 2"},
        },
    ),
    "ApiserverCertificateExpiresSoon": AlertCase(
        {
            apiserver("apiserver_tls_certificate_expiration_timestamp_seconds", certificate="c"): steady(
                8 * DAY_S
            )
        },
        {**OF_A, "certificate": "c"},
        "The certificate c of a expires in 7d 23h 0m 0s",
        {
            "it is renewed in time": {
                apiserver("apiserver_tls_certificate_expiration_timestamp_seconds", certificate="c"): steady(
                    30 * DAY_S
                )
            }
        },
    ),
    "ApiserverCertificateExpires": AlertCase(
        {apiserver("apiserver_tls_certificate_expiration_timestamp_seconds", certificate="c"): steady(7200)},
        {**OF_A, "certificate": "c"},
        "The certificate c of a expires in 1h 0m 0s",
        {
            "there are days left": {
                apiserver("apiserver_tls_certificate_expiration_timestamp_seconds", certificate="c"): steady(
                    8 * DAY_S
                )
            }
        },
    ),
    "ApiserverAuditErrors": AlertCase(
        {apiserver("apiserver_audit_error_total", plugin="log"): changed("0+0", "1+0")},
        OF_A,
        "a loses audit events, or rejects requests because it cannot record them",
        {
            "all events are recorded": {
                apiserver("apiserver_audit_error_total", plugin="log"): steady(0),
                apiserver("apiserver_audit_requests_rejected_total"): steady(0),
            }
        },
    ),
    "ApiserverWebhookFailures": AlertCase(
        {apiserver(REJECTIONS, error_type="calling_webhook_error", **WEBHOOK): growing(1)},
        WEBHOOK,
        "Calls to the admission webhook w.example.com fail",
        {"it rejects writes": {apiserver(REJECTIONS, error_type="no_error", **WEBHOOK): growing(100)}},
    ),
    "ApiserverWebhookSlow": AlertCase(
        durations(CALLS_OF_WEBHOOKS, fast_le="1", slow_le="2.5", is_slow=True, **WEBHOOK),
        WEBHOOK,
        "1 in 100 calls to the admission webhook w.example.com take more than 2.485s",
        {"it is fast": durations(CALLS_OF_WEBHOOKS, fast_le="1", slow_le="2.5", is_slow=False, **WEBHOOK)},
    ),
    "ApiserverConversionWebhookFailures": AlertCase(
        {
            apiserver(
                "apiserver_conversion_webhook_request_total",
                result="failure",
                failure_type="conversion_call_failure",
            ): growing(1)
        },
        {"failure_type": "conversion_call_failure"},
        "Calls to conversion webhooks fail: conversion_call_failure",
        {
            "calls succeed": {
                apiserver(
                    "apiserver_conversion_webhook_request_total", result="success", failure_type=""
                ): growing(100)
            }
        },
    ),
    "ApiserverControllerFails": AlertCase(
        {apiserver("apiserver_controller_restarts_total", name="resourcequota-controller"): growing(1)},
        {"name": "resourcequota-controller"},
        "The controller resourcequota-controller fails repeatedly",
        {
            "a single failure": {
                apiserver("apiserver_controller_restarts_total", name="resourcequota-controller"): changed(
                    "0", "1"
                )
            }
        },
    ),
    "ApiserverAuthorizationWebhookFailures": AlertCase(
        {
            apiserver(
                "apiserver_authorization_webhook_evaluations_total", name="z", result="timeout"
            ): growing(1)
        },
        {"name": "z", "result": "timeout"},
        "Calls to the authorization webhook z fail: timeout",
        {
            "calls succeed, or their requests end first": {
                apiserver(
                    "apiserver_authorization_webhook_evaluations_total", name="z", result="success"
                ): growing(100),
                apiserver(
                    "apiserver_authorization_webhook_evaluations_total", name="z", result="canceled"
                ): growing(1),
            }
        },
    ),
    "ApiserverKmsErrors": AlertCase(
        {apiserver(KMS_CALLS, provider_name="k", grpc_status_code="Unavailable"): growing(1)},
        {"instance": "a", "provider_name": "k", "grpc_status_code": "Unavailable"},
        "Calls from a to the KMS plugin k fail: Unavailable",
        {"calls succeed": {apiserver(KMS_CALLS, provider_name="k", grpc_status_code="OK"): growing(100)}},
    ),
    "ApiserverApiServiceUnavailable": AlertCase(
        {apiserver("aggregator_unavailable_apiservice", name="v1.example.com"): steady(1)},
        {"name": "v1.example.com"},
        "The extension API server of v1.example.com is unavailable",
        {
            "it is available": {
                apiserver("aggregator_unavailable_apiservice", name="v1.example.com"): steady(0)
            }
        },
    ),
    "EtcdMemberDown": AlertCase(
        {etcd("up"): steady(0)},
        OF_E,
        "e does not respond. If another member fails, etcd loses its quorum",
        {"it answers": {etcd("up"): steady(1)}},
    ),
    "EtcdNoLeader": AlertCase(
        {etcd("etcd_server_has_leader"): steady(0)},
        OF_E,
        "e has no leader",
        {"it has one": {etcd("etcd_server_has_leader"): steady(1)}},
    ),
    "EtcdLeaderChanges": AlertCase(
        {etcd("etcd_server_leader_changes_seen_total"): growing(1)},
        OF_E,
        "e saw 15 leader changes in 15 minutes",
        {"an election": {etcd("etcd_server_leader_changes_seen_total"): changed("1+0", "2+0")}},
    ),
    "EtcdNearlyFull": AlertCase(
        {
            etcd("etcd_mvcc_db_total_size_in_bytes"): steady(1.8e9),
            etcd("etcd_server_quota_backend_bytes"): steady(2e9),
        },
        OF_E,
        "e has used 90% of its quota",
        {
            "half of it": {
                etcd("etcd_mvcc_db_total_size_in_bytes"): steady(1e9),
                etcd("etcd_server_quota_backend_bytes"): steady(2e9),
            }
        },
    ),
    "EtcdDiskSlow": AlertCase(
        {
            etcd("etcd_disk_wal_fsync_duration_seconds_bucket", le="0.064"): growing(0),
            etcd("etcd_disk_wal_fsync_duration_seconds_bucket", le="0.256"): growing(100),
            etcd("etcd_disk_wal_fsync_duration_seconds_bucket", le="+Inf"): growing(100),
        },
        {"instance": "e"},
        "1 in 100 fsyncs of e take more than 254.1ms",
        {
            "fsyncs are fast": {
                etcd("etcd_disk_wal_fsync_duration_seconds_bucket", le="0.064"): growing(100),
                etcd("etcd_disk_wal_fsync_duration_seconds_bucket", le="+Inf"): growing(100),
            }
        },
    ),
}
SILENT: Final = {
    f"{alert}: {when}": (alert, series)
    for alert, case in CASES.items()
    for when, series in case.silent.items()
}


def evaluate(
    directory: Path, alert: str, series: Series, expected: list[object], rules: Iterable[Path] = (ALERTS,)
) -> None:
    """Have promtool evaluate the rules on series, and compare an alert with what is expected of it."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is missing: it comes with Prometheus, and has to be on PATH")
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{MINUTES}m", "alertname": alert, "exp_alerts": expected}],
    }
    path = directory / "test.json"  # JSON is YAML.
    files = [str(each) for each in rules]
    path.write_text(json.dumps({"rule_files": files, "evaluation_interval": "1m", "tests": [test]}))
    said = subprocess.run(
        [program, "test", "rules", str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert said.returncode == 0, said.stdout + said.stderr


def test_all_alerts_have_a_case_that_fires_and_one_that_does_not() -> None:
    assert list(CASES) == list(alert_rules())
    assert all(case.silent for case in CASES.values())


@pytest.mark.parametrize(("alert", "case"), CASES.items(), ids=CASES)
def test_an_alert_fires(tmp_path: Path, alert: str, case: AlertCase) -> None:
    rule = alert_rules()[alert]
    annotations = {**rule["annotations"], "summary": case.summary}
    labels = {"job": "etcd" if alert.startswith("Etcd") else "apiserver", **case.labels, **rule["labels"]}
    evaluate(tmp_path, alert, case.fires, [{"exp_labels": labels, "exp_annotations": annotations}])


@pytest.mark.parametrize(("alert", "series"), SILENT.values(), ids=SILENT)
def test_an_alert_does_not_fire(tmp_path: Path, alert: str, series: Series) -> None:
    evaluate(tmp_path, alert, series, [])


def test_prometheus_finds_no_replica_at_all(tmp_path: Path) -> None:
    rule = alert_rules()["ApiserverGone"]
    labels = {"job": "apiserver", **rule["labels"]}
    evaluate(tmp_path, "ApiserverGone", {}, [{"exp_labels": labels, "exp_annotations": rule["annotations"]}])


def test_alerts_of_two_releases_in_a_cluster_with_an_api_server(tmp_path: Path) -> None:
    """Each is about one release only, and none is about the cluster's own API server."""
    found = {name: render({"monitored": MONITORED}, name)["monitored"].objects for name in ("blue", "green")}
    rules, jobs = [], {}
    for name, objects in found.items():
        (endpoint,) = objects["ServiceMonitor"]["spec"]["endpoints"]
        ((_, jobs[name]),) = [each.values() for each in endpoint["relabelings"]]
        assert jobs_in(objects["PrometheusRule"]) == {jobs[name], "etcd"}
        rules.append(tmp_path / f"{name}.json")
        rules[-1].write_text(json.dumps(objects["PrometheusRule"]["spec"]))
    series = {
        apiserver("up", "blue", job=jobs["blue"]): steady(0),
        apiserver("up", "green", job=jobs["green"]): steady(1),
        apiserver("up", "host"): steady(1),
        apiserver("apiserver_request_total", "blue", job=jobs["blue"], code="200"): growing(100),
        apiserver("apiserver_request_total", "green", job=jobs["green"], code="500"): growing(1),
        apiserver("apiserver_request_total", "host", code="500"): growing(100),
    }
    for alert, name in (("ApiserverGone", "blue"), ("ApiserverErrors", "green")):
        rule = alert_rules()[alert]
        fired = {
            "exp_labels": {"job": jobs[name], **rule["labels"]},
            "exp_annotations": {**rule["annotations"], "summary": CASES[alert].summary.replace("2%", "100%")},
        }
        evaluate(tmp_path, alert, series, [fired], rules)
