"""The defaults and exemptions of the plugin PodSecurity.

Source: k8s.io/pod-security-admission, admission/api.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from apiserver.meta import names
from apiserver.meta.brand import Brand
from apiserver.wire.configuration_fields import ConfigurationObject, one_of

PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)  # from lax to strict
LATEST: Final = "latest"
VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]{0,8})", re.ASCII)


class LevelVersion(NamedTuple):
    """A level of the Pod Security Standards, in one version."""

    level: str = PRIVILEGED
    version: str = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


class PodSecurityConfiguration(NamedTuple):
    """The policy for namespaces without labels, and the exemptions from all policies.

    audited: the level whose violations are recorded in audit events.
    """

    enforced: LevelVersion = LevelVersion()
    audited: LevelVersion = LevelVersion()
    warned: LevelVersion = LevelVersion()
    exempt_users: frozenset[str] = frozenset()
    exempt_namespaces: frozenset[str] = frozenset()
    exempt_runtime_classes: frozenset[str] = frozenset()


def parse(document: Any, brand: Brand) -> PodSecurityConfiguration:
    """Returns the defaults and exemptions that a configuration file sets. Raises InvalidConfiguration."""
    group = brand.group("pod-security.admission.config")
    with ConfigurationObject(document) as fields:
        fields.require_kind(
            *((f"{group}/{version}", "PodSecurityConfiguration") for version in ("v1", "v1beta1", "v1alpha1"))
        )
        with fields.object("defaults") as defaults:
            enforced, audited, warned = (_default(defaults, mode) for mode in ("enforce", "audit", "warn"))
        with fields.object("exemptions") as exemptions:
            return PodSecurityConfiguration(
                enforced,
                audited,
                warned,
                exempt_users=_names(exemptions, "usernames", lambda name: [] if name else ["is required"]),
                exempt_namespaces=_names(exemptions, "namespaces", names.dns_label),
                exempt_runtime_classes=_names(exemptions, "runtimeClasses", names.dns_subdomain),
            )


def _default(fields: ConfigurationObject, mode: str) -> LevelVersion:
    level = one_of(fields, mode, fields.text(mode, PRIVILEGED), LEVELS)
    name = f"{mode}-version"
    version = fields.text(name, LATEST)
    if version != LATEST and not VERSION.fullmatch(version):
        raise fields.fail(name, 'must be "latest" or "v1.x"')
    return LevelVersion(level, version)


def _names(fields: ConfigurationObject, field: str, rule: Callable[[str], list[str]]) -> frozenset[str]:
    found: set[str] = set()
    for index, name in enumerate(fields.texts(field)):
        problems = ["is a duplicate"] if name in found else rule(name)
        if problems:
            raise fields.fail(f"{field}[{index}]", f'"{name}": {", ".join(problems)}')
        found.add(name)
    return frozenset(found)
