"""Which build of the server runs, as a metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from apiserver.metrics.series import Family, family

# The fields of /version that the labels show, in their order.
_FIELDS: Final = (
    *("major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate"),
    *("goVersion", "compiler", "platform"),
)


class BuildInfo:
    """The metric of the build: always 1, with labels that tell the build. version: the body of /version."""

    def __init__(self, version: Mapping[str, str]) -> None:
        self._labels = [version[field] for field in _FIELDS]

    def families(self) -> Iterable[Family]:
        yield family("kubernetes_build_info", [(self._labels, 1)])
