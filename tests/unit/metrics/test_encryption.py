"""What is told of encryption: nothing where there is none, and of keys only hashes."""

from __future__ import annotations

import threading
from time import perf_counter
from typing import Final

from apiserver.metrics.configuration_reloads import hash_of
from apiserver.metrics.encryption import KEY_IDS_MAX, EncryptionMetrics

KEY: Final = "key-1"
# As long as this another thread gets, which must wait for longer.
OTHER_THREAD_WITHIN_S: Final = 0.2


def text(metrics: EncryptionMetrics) -> str:
    return "".join(line for family in metrics.families() for line in (family.metric.head(36), *family.series))


def test_without_a_configuration_nothing_is_counted() -> None:
    """What has labels has no series; https://kubernetes.io/docs/tasks/administer-cluster/encrypt-data/."""
    told = [line for line in text(EncryptionMetrics("server")).splitlines() if not line.startswith("#")]
    assert [line for line in told if "{" in line and "{le=" not in line] == []
    assert "apiserver_storage_envelope_transformation_cache_misses_total 0" in told
    assert "apiserver_storage_data_key_generation_duration_seconds_count 0" in told


def test_keys_are_told_by_their_hashes() -> None:
    metrics = EncryptionMetrics("server", lambda: 7.0)
    metrics.configuration.content_hash = "sha256:d"
    metrics.transformed("to_storage", "key1:", perf_counter(), "OK")
    metrics.transformed("from_storage", "unknown", perf_counter(), "unknown-non-grpc")
    metrics.called("plugin", "/v2.KeyManagementService/Status", "OK", 0.001)
    metrics.key_used("to_storage", "plugin", KEY)
    metrics.key_used("to_storage", "plugin", KEY)
    metrics.key_reported("plugin", KEY)
    metrics.key_id_invalid("plugin", "empty")
    metrics.configuration.reloaded(True)
    told = text(metrics)
    assert KEY not in told
    server, key = f'apiserver_id_hash="{hash_of(b"server")}"', f'key_id_hash="{hash_of(KEY.encode())}"'
    envelope, controller = "apiserver_envelope_encryption_", "apiserver_encryption_config_controller_"
    written, read = 'transformation_type="to_storage"', 'transformation_type="from_storage"'
    operations = "apiserver_storage_transformation_operations_total"
    for line in (
        f'{operations}{{status="OK",{written},transformer_prefix="key1:"}} 1',
        f'{operations}{{status="unknown-non-grpc",{read},transformer_prefix="unknown"}} 1',
        f'{envelope}key_id_hash_total{{{server},{key},provider_name="plugin",{written}}} 2',
        f'{envelope}key_id_hash_status_last_timestamp_seconds{{{server},{key},provider_name="plugin"}} 7',
        f'{envelope}invalid_key_id_from_status_total{{error="empty",provider_name="plugin"}} 1',
        f'{controller}automatic_reloads_total{{{server},status="success"}} 1',
        f'{controller}last_config_info{{{server},hash="sha256:d"}} 1',
    ):
        assert line in told
    # What failed has no duration.
    assert f"duration_seconds_count{{{read}" not in told


def test_keys_that_come_and_go_are_bounded() -> None:
    metrics = EncryptionMetrics("server")
    metrics.configuration.content_hash = "sha256:d"
    for number in range(3 * KEY_IDS_MAX):
        metrics.key_used("to_storage", "plugin", f"key-{number}")
    assert text(metrics).count("apiserver_envelope_encryption_key_id_hash_total{") == KEY_IDS_MAX


def test_a_key_that_two_threads_use_is_counted_twice() -> None:
    """Large values are decrypted beside the event loop."""
    others: list[threading.Thread] = []

    def use() -> None:
        metrics.key_used("to_storage", "plugin", KEY)

    def wall() -> float:
        # Between the look at the count and its change, another thread comes, if it can.
        if not others:
            others.append(threading.Thread(target=use))
            others[0].start()
            others[0].join(OTHER_THREAD_WITHIN_S)
        return 7.0

    metrics = EncryptionMetrics("server", wall)
    metrics.configuration.content_hash = "sha256:d"
    use()
    others[0].join()
    (line,) = [each for each in text(metrics).splitlines() if "key_id_hash_total{" in each]
    assert line.endswith(" 2")
