"""Metrics of reloaded configuration files: attempts, the time of the last one, and the hash of the content.

Source: k8s.io/apiserver, pkg/server/options/{authentication,authorization,encryption}config/metrics.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable

from apiserver.metrics.series import Family, family


class ConfigurationReloads:
    """The reloads of one kind of configuration: `authentication`, `authorization` or `encryption`.

    content_hash: of the content in use; empty if there is none.
    """

    def __init__(self, kind: str, server: str, clock: Callable[[], float]) -> None:
        """server: the hash of the identity of this server. clock: seconds since 1970."""
        self.content_hash = ""
        self._prefix = f"apiserver_{kind}_config_controller_"
        self._server, self._clock = server, clock
        self._reloads: Counter[str] = Counter()
        self._reloaded_at: dict[str, float] = {}

    def configured(self, content: bytes) -> None:
        """Note the content of the file that is in use."""
        self.content_hash = hash_of(content)

    def reloaded(self, is_applied: bool) -> None:
        """Count a change of the file. is_used: whether the new content is in use."""
        status = "success" if is_applied else "failure"
        self._reloads[status] += 1
        self._reloaded_at[status] = self._clock()

    def families(self) -> Iterable[Family]:
        for name, by_status in (
            ("automatic_reloads_total", self._reloads),
            ("automatic_reload_last_timestamp_seconds", self._reloaded_at),
        ):
            samples = [((status, self._server), value) for status, value in by_status.items()]
            yield family(f"{self._prefix}{name}", samples)
        in_use = [((self._server, self.content_hash), 1)] if self.content_hash else []
        yield family(f"{self._prefix}last_config_info", in_use)


def hash_of(content: bytes) -> str:
    """Returns a hash that stands for a confidential text, such as an identity or a file's content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}" if content else ""
