"""The lifecycles of APIs: the releases in which each version of each resource is served, and deprecated."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from apiserver.meta.releases.emulation import MAJOR, EmulatedRelease
from apiserver.meta.vocabulary import Deprecation, Removal

# Beta versions introduced from this release on are not served by default. Row H02; Kubernetes began two
# releases later, and made exceptions.
BETA_OFF_SINCE: Final = 22
# The release that has removed the last of the versions that older ones had, of those in
# `catalogue.removed_versions`.
REMOVED_BEFORE: Final = 35
# The release since which Kubernetes warns clients of deprecated versions. Row S05.
_SIGNALS_SINCE: Final = 19
_REPLACED_BY: Final = ">"
_SILENTLY_REPLACED_BY: Final = "~"


class Stability(IntEnum):
    """The stability of a version; a greater one is more stable."""

    ALPHA = 1
    BETA = 2
    GA = 3

    @classmethod
    def of(cls, version: str) -> Stability:
        """Returns the stability of a version such as `v1beta1`."""
        return cls.ALPHA if "alpha" in version else cls.BETA if "beta" in version else cls.GA


class Replacement(NamedTuple):
    """The replacement of an API: a kind of a version, as `apps/v1` and `Deployment`."""

    group_version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.group_version} {self.kind}"


class Lifecycle(NamedTuple):
    """The lifecycle of one version of one resource. Releases are minor numbers, of 1.x.

    group_version: with Kubernetes' domain, as `networking.k8s.io/v1`. resource: its name, or the path of a
        subresource.
    introduced: 0 if that was before the first release. deprecated, removed: the first release in which it is
        so; None if there is none.
    replacements: clients should use the first of these that a release has.
    names_replacement: whether Kubernetes' warnings name the replacement.
    """

    group_version: str
    resource: str
    kind: str
    introduced: int
    deprecated: int | None = None
    removed: int | None = None
    replacements: tuple[Replacement, ...] = ()
    names_replacement: bool = True

    @property
    def group(self) -> str:
        return self.group_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.group_version.rpartition("/")[2]

    @property
    def stability(self) -> Stability:
        return Stability.of(self.version)

    def is_in(self, minor: int) -> bool:
        """Whether a release has it, served by default or not."""
        return self.introduced <= minor and (self.removed is None or minor < self.removed)

    @property
    def is_on_by_default(self) -> bool:
        """Whether a release that has it serves it by default. Rows H01-H03."""
        if self.stability is Stability.BETA:
            return self.introduced < BETA_OFF_SINCE
        return self.stability is Stability.GA

    def is_deprecated_in(self, minor: int) -> bool:
        return self.deprecated is not None and self.deprecated <= minor

    def replacement(self, minor: int) -> Replacement | None:
        """Returns the replacement in a release."""
        for replacement in self.replacements:
            life = lifecycle_of(replacement.group_version, replacement.kind)
            if life is not None and life.is_in(minor):
                return replacement
        return None

    def deprecation(self, minor: int, group_domain: str) -> Deprecation | None:
        """Returns the deprecation of the version in a release; None if it is not deprecated there.

        Rows S05-S07. group_domain: replaces `k8s.io` in the names of groups.
        """
        if self.deprecated is None or minor < self.deprecated:
            return None
        replacement = self.replacement(minor) if self.names_replacement else None
        return Deprecation(
            f"{MAJOR}.{self.deprecated}",
            "" if self.removed is None else f"{MAJOR}.{self.removed}",
            "" if replacement is None else in_domain(str(replacement), group_domain),
            is_announced=minor >= _SIGNALS_SINCE,
        )

    def removal(self, minor: int, group_domain: str) -> Removal | None:
        """Returns the removal and the replacement in a release; None if it is neither removed nor deprecated.

        The removal of beta versions is known from the beginning, releases before they are deprecated. The
        replacement is included even if Kubernetes' warnings do not name it, or if it does not exist yet.
        """
        if self.removed is None and not self.is_deprecated_in(minor):
            return None
        replacement = self.replacement(minor)
        if replacement is None and self.removed is not None:
            replacement = self.replacement(self.removed - 1)
        return Removal(
            "" if self.removed is None else f"{MAJOR}.{self.removed}",
            "" if replacement is None else in_domain(str(replacement), group_domain),
        )


def in_domain(name: str, group_domain: str) -> str:
    """Returns the name of a group, or a text that begins with one, with another domain instead of
    Kubernetes'.
    """
    return name if group_domain == _DOMAIN else name.replace(f".{_DOMAIN}", f".{group_domain}", 1)


_DOMAIN: Final = "k8s.io"


def known_lifecycles() -> Mapping[tuple[str, str], Lifecycle]:
    """Returns the lifecycles of all versions of all resources, by version and resource, as `v1`, `pods`."""
    return _tables()[0]


def last_known_removal() -> int:
    """Returns the last release whose removals are known."""
    return max(each.removed for each in known_lifecycles().values() if each.removed is not None)


def lifecycle_of(group_version: str, kind: str) -> Lifecycle | None:
    """Returns the lifecycle of a kind in one version."""
    return _tables()[1].get((group_version, kind))


def has_api(key: str, minor: int, group_domain: str) -> bool:
    """Whether a release has the API of a key of --runtime-config: `v1`, `apps/v1`, `apps/v1/deployments`."""
    return any(
        key in (in_domain(each.group_version, group_domain), _resource_key(each, group_domain))
        for each in known_lifecycles().values()
        if each.is_in(minor)
    )


def _resource_key(life: Lifecycle, group_domain: str) -> str:
    return f"{in_domain(life.group_version, group_domain)}/{life.resource}"


@cache
def _tables() -> tuple[Mapping[tuple[str, str], Lifecycle], Mapping[tuple[str, str], Lifecycle]]:
    text = pkgutil.get_data(__package__, "api_lifecycles.txt")
    assert text is not None
    lives = [_parsed(line) for line in text.decode().splitlines() if not line.startswith("#")]
    by_resource = {(each.group_version, each.resource): each for each in lives}
    by_kind = {(each.group_version, each.kind): each for each in reversed(lives)}
    return MappingProxyType(by_resource), MappingProxyType(by_kind)


def _parsed(line: str) -> Lifecycle:
    tells = _SILENTLY_REPLACED_BY not in line
    life, _, instead = line.partition(_REPLACED_BY if tells else _SILENTLY_REPLACED_BY)
    group_version, resource, kind, introduced, *ends = life.split()
    deprecated, removed = [*map(_release, ends), None, None][:2]
    replacements = tuple(
        Replacement(version, other or kind)
        for version, _, other in (each.partition(":") for each in instead.split())
    )
    return Lifecycle(group_version, resource, kind, int(introduced), deprecated, removed, replacements, tells)


def _release(text: str) -> int | None:
    return None if text == "-" else int(text)


def storage_version(
    lives: Iterable[Lifecycle], release: EmulatedRelease, oldest: int | None = None
) -> Lifecycle | None:
    """Returns the storage version of a kind in a release: the preferred one of those it has.

    The oldest compatible release has it, too, if possible, and it is no alpha version if there is another.
    Returns None if the release has none. lives: those of all versions of one kind, the preferred ones first.
    oldest: the oldest release of the servers that share the store; None if all have the same. Source:
    k8s.io/apiserver, pkg/server/storage/resource_encoding_config.go, emulatedStorageVersion.
    """
    there = [each for each in lives if each.is_in(release.minor)]
    compatible = [each for each in there if each.introduced <= release.min_compatible]
    stable = [each for each in compatible if each.stability is not Stability.ALPHA]
    readable = [each for each in there if oldest is not None and each.is_in(oldest)]
    return next(iter([*stable, *compatible, *readable, *there]), None)
