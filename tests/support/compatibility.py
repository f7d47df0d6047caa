"""The compatibility version of a server without flags: what new CEL expressions may use there."""

from __future__ import annotations

from typing import Final

from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.meta.releases.gates import gates_of

DEFAULT_COMPATIBILITY: Final = CompatibilityVersion.of(DEFAULT_RELEASE, gates_of(DEFAULT_RELEASE.minor, ()))
