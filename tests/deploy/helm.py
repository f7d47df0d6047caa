"""Renders and checks the chart with Helm's own code: `python -m tests.deploy.helm < JSON`.

Helm is written in Go, and the library brings Go's runtime, with signal handlers and threads: so it has an
interpreter of its own. It reads the values of each variant, by its name, and writes its results.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import platform
import subprocess
import sys
from typing import Any, Final, NamedTuple

import pytest
import yaml

from tests.deploy.artefacts import DEPLOY, ROOT
from tests.support.required import missing

CHART: Final = DEPLOY / "helm" / "apiserver"
# As in deploy/kubernetes.
RELEASE: Final = "apiserver"


class Rendered(NamedTuple):
    """A rendered chart. refusal: why Helm refuses the values. findings: what `helm lint` warns of."""

    objects: dict[str, Any]
    notes: str
    refusal: str
    findings: list[str]


def render(variants: dict[str, dict[str, Any]], release: str = RELEASE) -> dict[str, Rendered]:
    """Returns what Helm makes of each variant, by its name.

    Without the library it skips the test, or fails it where tools are required and there is a wheel.
    """
    if importlib.util.find_spec("helm_python") is None:
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            pytest.skip("helm_python has wheels only for Linux on x86_64")
        missing("helm_python", "pip install --editable '.[helm]' installs it")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.deploy.helm", release],
        input=json.dumps(variants),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return {name: _rendered(found) for name, found in json.loads(ran.stdout).items()}


def _rendered(found: dict[str, Any]) -> Rendered:
    files = found["files"]
    notes = "".join(text for name, text in files.items() if name.endswith("NOTES.txt"))
    objects = [
        document
        for name, text in files.items()
        if name.endswith(".yaml")
        for document in yaml.safe_load_all(text)
        if document is not None
    ]
    by_kind = {document["kind"]: document for document in objects}
    assert len(by_kind) == len(objects)
    return Rendered(by_kind, notes, found["refusal"], found["findings"])


def main(release: str) -> None:
    helm = importlib.import_module("helm_python")
    results = {}
    with helm.Chart.load(CHART) as chart:
        for name, values in json.load(sys.stdin).items():
            files, refusal = {}, ""
            try:
                chart.validate_schema(values)
                files = chart.render(values, name=release, namespace=RELEASE)
            except helm.HelmError as error:
                refusal = str(error)
            report = helm.lint(CHART, values, strict=True, namespace=RELEASE)
            # The first severity is that of advice, such as to have an icon.
            found = [each["error"] for each in report["messages"] if each["severity"] > 1]
            results[name] = {"files": files, "refusal": refusal, "findings": found}
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
