"""What is encrypted and decrypted, with which keys, and how KMS plugins respond.

Source of names: k8s.io/apiserver, pkg/storage/value/metrics.go,
pkg/storage/value/encrypt/envelope/metrics and pkg/server/options/encryptionconfig/metrics.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar

from apiserver.metrics.histograms import Histogram
from apiserver.metrics.series import Family, histogram_family, values

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")

_OK: Final = "OK"


def _powers(first: float, count: int) -> tuple[float, ...]:
    return tuple(first * 2**power for power in range(count))


_TRANSFORMATION_BUCKETS: Final = _powers(5e-6, 25)
_DATA_KEY_BUCKETS: Final = _powers(5e-6, 14)
_CALL_BUCKETS: Final = _powers(1e-4, 20)
# Of keys that come and go, those used last are told, as many as in Kubernetes.
KEY_IDS_MAX: Final = 10


class EncryptionMetrics:
    """Counts transformations, uses of keys, and reloads of the configuration.

    It is the observer of chains, of plugins, and of their calls. `transformed` and `key_used` are called from
    any thread, since large values are transformed beside the event loop; the others from the event loop.
    server: the identity of this server. wall: seconds since 1970.
    """

    def __init__(self, server: str, wall: Callable[[], float] = time.time) -> None:
        self._server = hash_of(server)
        self._wall = wall
        self._lock = threading.Lock()
        self._transformations: Counter[tuple[str, str, str]] = Counter()
        self._durations: dict[tuple[str, str], Histogram] = {}
        self._calls: dict[tuple[str, str, str], Histogram] = {}
        self._data_keys = Histogram(_DATA_KEY_BUCKETS)
        self._fetched = 0
        # By direction, provider and key ID: how often it was used, and when last.
        self._used: OrderedDict[tuple[str, str, str], tuple[int, float]] = OrderedDict()
        self._reported: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._invalid_key_ids: Counter[tuple[str, str]] = Counter()
        self._reloads: Counter[str] = Counter()
        self._reloaded_at: dict[str, float] = {}
        self.digest = ""  # of the configuration that holds; empty if there is none

    # ---- what is told

    def transformed(self, direction: str, prefix: str, began: float, code: str) -> None:
        """See `storage.encryption.chains.Observer`."""
        took_s = time.perf_counter() - began
        with self._lock:
            self._transformations[direction, prefix, code] += 1
            if code == _OK:
                durations = self._durations.get((direction, prefix))
                if durations is None:
                    durations = self._durations[direction, prefix] = Histogram(_TRANSFORMATION_BUCKETS)
                durations.observe(took_s)

    def called(self, provider: str, method: str, code: str, duration_s: float) -> None:
        """See `storage.encryption.kms_client.CallObserver`."""
        durations = self._calls.get((provider, method, code))
        if durations is None:
            durations = self._calls[provider, method, code] = Histogram(_CALL_BUCKETS)
        durations.observe(duration_s)

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

    def reloaded(self, is_applied: bool) -> None:
        status = "success" if is_applied else "failure"
        self._reloads[status] += 1
        self._reloaded_at[status] = self._wall()

    # ---- the exposition

    def families(self) -> Iterable[Family]:
        yield values(
            "apiserver_storage_transformation_operations_total",
            "counter",
            "Values that were encrypted or decrypted, by provider and, for those that have keys, by key.",
            ("transformation_type", "transformer_prefix", "status"),
            list(self._transformations.items()),
        )
        yield histogram_family(
            "apiserver_storage_transformation_duration_seconds",
            "How long it took to encrypt or decrypt a value.",
            ("transformation_type", "transformer_prefix"),
            list(self._durations.items()),
        )
        yield histogram_family(
            "apiserver_storage_data_key_generation_duration_seconds",
            "How long it took to generate a data encryption key.",
            (),
            [((), self._data_keys)],
        )
        yield values(
            "apiserver_storage_envelope_transformation_cache_misses_total",
            "counter",
            "Keys that a KMS plugin was asked to decrypt.",
            (),
            [((), self._fetched)],
        )
        yield from self._plugin_families()
        yield from self._reload_families()

    def _plugin_families(self) -> Iterable[Family]:
        envelope = "apiserver_envelope_encryption_"
        yield histogram_family(
            f"{envelope}kms_operations_latency_seconds",
            "How long calls of KMS plugins took.",
            ("provider_name", "method_name", "grpc_status_code"),
            list(self._calls.items()),
        )
        labels = ("transformation_type", "provider_name", "key_id_hash", "apiserver_id_hash")
        used = [
            ((direction, provider, hash_of(key_id), self._server), use)
            for (direction, provider, key_id), use in list(self._used.items())
        ]
        yield values(
            f"{envelope}key_id_hash_total",
            "counter",
            "How often a key of a KMS plugin was used.",
            labels,
            [(each, count) for each, (count, _) in used],
        )
        yield values(
            f"{envelope}key_id_hash_last_timestamp_seconds",
            "gauge",
            "When a key of a KMS plugin was used last.",
            labels,
            [(each, at) for each, (_, at) in used],
        )
        yield values(
            f"{envelope}key_id_hash_status_last_timestamp_seconds",
            "gauge",
            "When a KMS plugin last said that it has a key.",
            ("provider_name", "key_id_hash", "apiserver_id_hash"),
            [
                ((provider, hash_of(key_id), self._server), at)
                for (provider, key_id), at in list(self._reported.items())
            ],
        )
        yield values(
            f"{envelope}invalid_key_id_from_status_total",
            "counter",
            "How often a KMS plugin said that it has a key whose name cannot be one.",
            ("provider_name", "error"),
            list(self._invalid_key_ids.items()),
        )

    def _reload_families(self) -> Iterable[Family]:
        controller = "apiserver_encryption_config_controller_"
        yield values(
            f"{controller}automatic_reloads_total",
            "counter",
            "Reloads of the encryption configuration.",
            ("status", "apiserver_id_hash"),
            [((status, self._server), count) for status, count in self._reloads.items()],
        )
        yield values(
            f"{controller}automatic_reload_last_timestamp_seconds",
            "gauge",
            "When the encryption configuration was last reloaded, or could not be.",
            ("status", "apiserver_id_hash"),
            [((status, self._server), at) for status, at in self._reloaded_at.items()],
        )
        yield values(
            f"{controller}last_config_info",
            "gauge",
            "The encryption configuration that holds.",
            ("apiserver_id_hash", "hash"),
            [((self._server, f"sha256:{self.digest}"), 1)] if self.digest else [],
        )


def hash_of(text: str) -> str:
    """Returns how a name is told that is nobody's business."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" if text else ""


def _put_newest(mapping: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    """Add as the newest, and forget the oldest if there are too many."""
    mapping[key] = value
    mapping.move_to_end(key)
    if len(mapping) > KEY_IDS_MAX:
        mapping.popitem(last=False)
