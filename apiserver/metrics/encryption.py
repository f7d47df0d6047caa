"""Metrics of encryption at rest: transformations, the keys in use, and calls of KMS plugins.

Source of names: k8s.io/apiserver, pkg/storage/value/metrics.go,
pkg/storage/value/encrypt/envelope/metrics and pkg/server/options/encryptionconfig/metrics.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar

from apiserver.metrics.configuration_reloads import ConfigurationReloads, hash_of
from apiserver.metrics.histograms import Histogram, Histograms
from apiserver.metrics.series import Family, family, single

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")

_OK: Final = "OK"


_TRANSFORMATIONS: Final = "apiserver_storage_transformation_duration_seconds"
_DATA_KEYS: Final = "apiserver_storage_data_key_generation_duration_seconds"
_CALLS: Final = "apiserver_envelope_encryption_kms_operations_latency_seconds"
# Of keys that come and go, the last used ones are shown, as many as in Kubernetes.
KEY_IDS_MAX: Final = 10


class EncryptionMetrics:
    """Counts transformations, uses of keys, and reloads of the configuration.

    It observes chains, plugins, and their calls. `transformed` and `key_used` are called from any thread,
    since large values are transformed in threads; the others from the event loop.
    server: the identity of this server. wall: seconds since 1970.
    """

    def __init__(self, server: str, wall: Callable[[], float] = time.time) -> None:
        self._server, self._wall = hash_of(server.encode()), wall
        self.configuration = ConfigurationReloads("encryption", self._server, wall)
        self._lock = threading.Lock()
        self._transformations: Counter[tuple[str, str, str]] = Counter()
        self._durations = Histograms[tuple[str, str]](_TRANSFORMATIONS)
        self._calls = Histograms[tuple[str, str, str]](_CALLS)
        self._data_keys = Histogram.of(_DATA_KEYS)
        self._fetched = 0
        # By direction, provider and key ID: how often it was used, and when last.
        self._used: OrderedDict[tuple[str, str, str], tuple[int, float]] = OrderedDict()
        self._reported: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._invalid_key_ids: Counter[tuple[str, str]] = Counter()

    # ---- observers

    def transformed(self, direction: str, prefix: str, began: float, code: str) -> None:
        """Count a transformation: see `storage.encryption.chains.TransformationObserver`."""
        took_s = time.perf_counter() - began
        with self._lock:
            self._transformations[direction, prefix, code] += 1
            if code == _OK:
                self._durations[direction, prefix].observe(took_s)

    def called(self, provider: str, method: str, code: str, duration_s: float) -> None:
        """Count a call of a KMS plugin: see `storage.encryption.kms_client.CallObserver`."""
        self._calls[provider, method, code].observe(duration_s)

    # These are those of `storage.encryption.kms.KmsObserver`.

    def key_used(self, direction: str, provider: str, key_id: str) -> None:
        key = (direction, provider, key_id)
        with self._lock:
            count, _ = self._used.get(key, (0, 0.0))
            _put_newest(self._used, key, (count + 1, self._wall()))

    def key_reported(self, provider: str, key_id: str) -> None:
        _put_newest(self._reported, (provider, key_id), self._wall())

    def key_id_invalid(self, provider: str, code: str) -> None:
        self._invalid_key_ids[provider, code] += 1

    def key_fetched(self) -> None:
        self._fetched += 1

    def data_key_made(self, duration_s: float) -> None:
        self._data_keys.observe(duration_s)

    # ---- the exposition

    def families(self) -> Iterable[Family]:
        yield family("apiserver_storage_transformation_operations_total", list(self._transformations.items()))
        yield family(_TRANSFORMATIONS, list(self._durations.items()))
        yield single(_DATA_KEYS, self._data_keys)
        yield single("apiserver_storage_envelope_transformation_cache_misses_total", self._fetched)
        yield family(_CALLS, list(self._calls.items()))
        used = [
            ((direction, provider, hash_of(key_id.encode()), self._server), use)
            for (direction, provider, key_id), use in list(self._used.items())
        ]
        yield family(
            "apiserver_envelope_encryption_key_id_hash_total", [(of, count) for of, (count, _) in used]
        )
        yield family(
            "apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds",
            [(of, at) for of, (_, at) in used],
        )
        reported = [
            ((provider, hash_of(key_id.encode()), self._server), at)
            for (provider, key_id), at in list(self._reported.items())
        ]
        yield family("apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds", reported)
        yield family(
            "apiserver_envelope_encryption_invalid_key_id_from_status_total",
            list(self._invalid_key_ids.items()),
        )
        yield from self.configuration.families()


def _put_newest(mapping: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    """Add an item as the newest, and drop the oldest if there are too many."""
    mapping[key] = value
    mapping.move_to_end(key)
    if len(mapping) > KEY_IDS_MAX:
        mapping.popitem(last=False)
