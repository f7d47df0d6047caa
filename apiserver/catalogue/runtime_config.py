"""The flag --runtime-config: selects the versions of types that are served.

Source: k8s.io/apiserver, pkg/server/resourceconfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.meta.vocabulary import GroupVersion

# Keys that name all versions of a stability level, and the word in the names of these versions.
_STABILITY_LEVELS: Final = {"api/alpha": "alpha", "api/beta": "beta"}
# Keys that name no version.
STABILITY_KEYS: Final = frozenset({*_STABILITY_LEVELS, "api/ga", "api/all"})


class RuntimeConfig:
    """Decides which versions are served. The most exact key counts: resource, version, stability level, all.

    given: keys, as `api/beta`, `batch/v1`, `v1` (the core group) or `apps/v1/deployments`, and whether each
        is on.
    """

    def __init__(self, given: Mapping[str, bool] | None = None) -> None:
        self._given = given or {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RuntimeConfig) and self._given == other._given

    def __hash__(self) -> int:
        return hash(frozenset(self._given.items()))

    def serves(self, group_version: GroupVersion, resource: str, *, by_default: bool) -> bool:
        version = group_version.version
        stability = next((key for key, word in _STABILITY_LEVELS.items() if word in version), "api/ga")
        for key in (f"{group_version}/{resource}", str(group_version), stability, "api/all"):
            if key in self._given:
                return self._given[key]
        return by_default
