"""Serves /version: the release of Kubernetes that is emulated, and this server's own version."""

from __future__ import annotations

import platform
import sys

from apiserver.meta.releases.emulation import MAJOR, EmulatedRelease
from apiserver.meta.vocabulary import Document


def version_document(release: EmulatedRelease) -> Document:
    """Returns the body of /version.

    `major` and `minor`, by which clients decide what they can use, are those of the emulated release.
    kube-apiserver has its own release there, and the emulated one in other fields.
    """
    major, minor = str(MAJOR), str(release.minor)
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(release.min_compatible),
        "gitVersion": release.git_version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        # Clients expect the field; this server runs on Python.
        "goVersion": f"python{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{_machine()}",
    }


def _machine() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
