"""Every version of kubectl that is on this machine.

`APISERVER_TESTS_KUBECTL` may name more of them, separated by colons.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.eventually import WITHIN_S
from tests.support.required import KUBECTL, missing

# The oldest that is supported; those before 1.29 also read OpenAPI v2.
OLDEST: Final = (1, 28)
# Stands for a version where there is none at all: `program` says so.
MISSING: Final = "missing"

# A command ends before its garbage matters, and tests run beside one another: a quarter less processor time.
_SHORT_RUN: Final = {"GOGC": "off", "GOMAXPROCS": "1"}

DEPLOYMENT: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1"}]}
"""


@cache
def kubectls() -> dict[str, str]:
    """kubectl programs by version, as `1.33`. Some installations carry several side by side."""
    places = [Path(path) for path in os.environ.get("APISERVER_TESTS_KUBECTL", "").split(":") if path]
    on_path = shutil.which("kubectl")
    if on_path:
        places.append(Path(on_path))
        places += sorted(Path(on_path).resolve().parent.glob("kubectl.*"))
    found: dict[str, str] = {}
    for place in places:
        shown = subprocess.run(
            [place, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False
        )
        version = re.search(r'"gitVersion": "v(\d+\.\d+)', shown.stdout)
        if version:
            found.setdefault(version[1], str(place))
    return found


def usable_versions() -> list[str]:
    """The supported versions on this machine, the oldest first."""
    found = sorted((tuple(map(int, version.split("."))), version) for version in kubectls())
    return [version for numbers, version in found if numbers >= OLDEST]


def program(version: str) -> str:
    """The path of a version. Skips the test, or fails it, where there is no kubectl."""
    if version == MISSING:
        missing("kubectl", KUBECTL)
    return kubectls()[version]


def each_version(*always: int) -> list[object]:
    """Parameters for all versions, the oldest first. always: indexes of those that are not slow tests."""
    usable = usable_versions() or [MISSING]
    in_short = {usable[place] for place in always}
    kubectl, slow = pytest.mark.kubectl, pytest.mark.slow
    return [pytest.param(v, marks=kubectl if v in in_short else (kubectl, slow)) for v in usable]


def oldest_and_newest(*marks: pytest.MarkDecorator) -> list[object]:
    """Parameters for these two: those between do as one of them does. The oldest is a slow test."""
    usable = usable_versions() or [MISSING]
    oldest = [pytest.param(each, marks=(pytest.mark.kubectl, pytest.mark.slow)) for each in usable[:-1][:1]]
    return [*oldest, pytest.param(usable[-1], marks=(pytest.mark.kubectl, *marks))]


@dataclass
class Kubectl:
    """kubectl in one namespace, with a home of its own: no cache, no configuration but what we give.

    path: where it looks for other programs, such as editors.
    """

    binary: str
    kubeconfig: Path
    namespace: str
    home: Path
    path: str = field(default_factory=lambda: os.environ["PATH"], kw_only=True)

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            env=self._environment(),
            check=False,
        )

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Run a command that must succeed without warnings, and return its output."""
        end = self.run(*arguments, stdin=stdin)
        assert end.returncode == 0, f"{arguments}: {end.stderr}"
        assert end.stderr == "", f"{arguments}: {end.stderr}"
        return end.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command(arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment(),
        )

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [self.binary, "--namespace", self.namespace, *arguments]

    def _environment(self) -> dict[str, str]:
        where = {"HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig), "PATH": self.path}
        return {**where, **_SHORT_RUN}


def rows(table: str) -> list[list[str]]:
    """The rows of a table; columns are two spaces apart, or more."""
    return [re.split(r" {2,}", line.strip()) for line in table.splitlines()]
