"""`apiserver convert`: what it reads, writes and tells. Row T31."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from apiserver.catalogue.offline_conversion import ManifestConverter, NotConvertible
from apiserver.cli import convert
from apiserver.cli.argument_parser import UsageError
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.meta.releases.lifecycles import Stability, known_lifecycles
from apiserver.schema.builtin import BuiltinSchemas

TARGET: Final = "scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}"
OLD: Final = f"""# of the shop
apiVersion: autoscaling/v1  # from 2019
kind: HorizontalPodAutoscaler
metadata:
  name: web  # as the Deployment
spec:
  # as many as fit
  maxReplicas: 3
  targetCPUUtilizationPercentage: 50
  {TARGET}
"""
NEW: Final = f"""# of the shop
apiVersion: autoscaling/v2  # from 2019
kind: HorizontalPodAutoscaler
metadata:
  name: web  # as the Deployment
spec:
  # as many as fit
  maxReplicas: 3
  {TARGET}
  metrics:
  - type: Resource
    resource:
      name: cpu
      target:
        type: Utilization
        averageUtilization: 50
"""
ROOT: Final = Path(__file__).parent.parent.parent.parent
SETTINGS: Final = """# untouched: {"a": 1}
apiVersion: v1
kind: ConfigMap
metadata: {name: x}
data:
  text: |
    a
     --- b
"""


def run(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, list[str]]:
    """Returns the exit code, what is written, and the lines that are told."""
    code = convert.run(list(map(str, arguments)))
    out, err = capfd.readouterr()
    return code, out, err.splitlines()


def converted(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, text: str, *arguments: str
) -> tuple[int, Any, list[str]]:
    """Returns the only manifest of a file as it is converted, and what is told, without its place."""
    file = tmp_path / "a.yaml"
    file.write_text(text)
    code, out, told = run(capfd, "-f", file, "-o", "json", *arguments)
    return code, json.loads(out), [line.removeprefix(f"apiserver convert: {file}, ") for line in told]


def test_comments_and_order_stay(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What need not change is written as it was, to the byte."""
    file = tmp_path / "a.yaml"
    file.write_text(f"{OLD}---\n# nothing\n---\n{SETTINGS}")
    assert run(capfd, "-f", file) == (0, f"{NEW}---\n{SETTINGS}", [])


@pytest.mark.parametrize("value", ["2001-99-99", "9" * 5000], ids=["a date that is none", "a long number"])
def test_values_that_only_some_decoders_take(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, value: str
) -> None:
    """Those of comments take dates for more than texts, and numbers only up to some length."""
    file = tmp_path / "a.yaml"
    file.write_text(OLD.replace("metadata:\n", f"metadata:\n  annotations: {{since: {value}}}\n"))
    _, out, _ = run(capfd, "-f", file)
    assert "apiVersion: autoscaling/v2" in out


def test_what_is_converted_has_no_defaults(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Only what somebody has written, and what the new version says of it."""
    _, document, _ = converted(capfd, tmp_path, OLD)
    assert document == yaml.safe_load(NEW)


def test_there_and_back(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What the old version has no place for stands in an annotation there."""
    metric = {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 5}},
    }
    new = yaml.safe_load(NEW)
    new["spec"]["metrics"].insert(0, metric)
    code, old, told = converted(capfd, tmp_path, json.dumps(new), "--output-version=autoscaling/v1")
    assert (code, told, old["apiVersion"]) == (0, [], "autoscaling/v1")
    assert old["spec"]["targetCPUUtilizationPercentage"] == 50
    _, again, _ = converted(capfd, tmp_path, json.dumps(old))
    assert sorted(again["spec"].pop("metrics"), key=str) == sorted(new["spec"].pop("metrics"), key=str)
    assert again["spec"] == new["spec"]  # Both versions have the same default of minReplicas.


def test_the_version_that_a_release_prefers(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """autoscaling/v2 has come with 1.23."""
    for release, version in (
        ("1.22", "autoscaling/v1"),
        ("1.23", "autoscaling/v2"),
        ("1.37", "autoscaling/v2"),
    ):
        _, document, _ = converted(capfd, tmp_path, NEW, f"--release={release}")
        assert document["apiVersion"] == version


def test_types_without_the_version_stay(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, document, told = converted(capfd, tmp_path, SETTINGS, "--output-version=autoscaling/v1")
    assert (document["apiVersion"], told) == ("v1", [])


def test_lists(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A list of one kind is one of the new version; a List is what it was."""
    item = yaml.safe_load(OLD)
    custom = {"apiVersion": "example.com/v1", "kind": "Thing", "x": {"kind": "y"}}
    for kind, version, items, expected in (
        ("HorizontalPodAutoscalerList", "autoscaling/v1", [item, item], "autoscaling/v2"),
        ("List", "v1", [item, custom], "v1"),
    ):
        text = json.dumps({"apiVersion": version, "kind": kind, "items": items})
        code, document, told = converted(capfd, tmp_path, text)
        assert (code, told) == (0, [])
        assert (document["kind"], document["apiVersion"]) == (kind, expected)
        assert document["items"][0] == yaml.safe_load(NEW)
        assert document["items"][1] in (yaml.safe_load(NEW), custom)


def test_directories(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In the order of their names, without what is no manifest, and without what is below but for -R."""
    (tmp_path / "below").mkdir()
    (tmp_path / "b.yml").write_text(OLD)
    (tmp_path / "a.json").write_text('{"apiVersion":"v1","kind":"Secret"}')
    (tmp_path / "README.md").write_text("no manifest")
    (tmp_path / "below" / "c.yaml").write_text(SETTINGS)
    for flags, kinds in (
        ([], ["Secret", "HorizontalPodAutoscaler"]),
        (["-R"], ["Secret", "HorizontalPodAutoscaler", "ConfigMap"]),
    ):
        code, out, told = run(capfd, "-f", tmp_path, *flags)
        assert (code, told) == (0, [])
        assert [each["kind"] for each in yaml.safe_load_all(out)] == kinds


def test_other_files_in_directories_are_skipped(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Values of charts, rules and configuration; a file that is named must be a manifest."""
    (tmp_path / "a.yaml").write_text(SETTINGS)
    (tmp_path / "rules.yaml").write_text("groups: []")
    (tmp_path / "values.yaml").write_text("- 1\n---\nreplicas: 2\n")
    code, out, told = run(capfd, "-f", tmp_path, "--strict")
    assert (code, yaml.safe_load(out)["kind"]) == (0, "ConfigMap")
    why = "(no apiVersion and kind)"
    assert told == [
        f"apiserver convert: {tmp_path}/rules.yaml: skipped 1 document that is not a manifest {why}",
        f"apiserver convert: {tmp_path}/values.yaml: skipped 2 documents that are not manifests {why}",
    ]
    code, _, _ = run(capfd, "-f", tmp_path / "rules.yaml")
    assert code == 1


def test_templates_of_charts_in_directories_are_skipped(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """They need not be YAML. A folder `templates` without a chart is like any other."""
    template = "kind: {{ .Values.kind }}\n{{- if .Values.on }}\nx: 1\n{{- end }}\n"
    chart = tmp_path / "chart"
    for folder in (chart / "templates" / "deep", tmp_path / "templates"):
        folder.mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: web\n")
    (chart / "templates" / "deep" / "web.yaml").write_text(template)
    (tmp_path / "templates" / "a.yaml").write_text(SETTINGS)
    code, out, told = run(capfd, "-f", tmp_path, "-R", "--strict")
    assert (code, yaml.safe_load(out)["kind"]) == (0, "ConfigMap")
    told_of = [line for line in told if "template of" in line]
    assert told_of == [
        f"apiserver convert: {chart}/templates/deep/web.yaml: skipped a template of a Helm chart"
    ]
    (chart / "Chart.yaml").unlink()
    assert run(capfd, "-f", tmp_path, "-R", "--strict")[0] == 1


def test_the_documented_example_runs_on_this_repository(capfd: pytest.CaptureFixture[str]) -> None:
    """docs/developing/api-upgrades.md: `apiserver convert -f manifests/ -R --strict`."""
    code, out, told = run(capfd, "-f", ROOT / "deploy", "-R", "--strict")
    assert code == 0
    assert {"Deployment", "Service"} <= {each["kind"] for each in yaml.safe_load_all(out)}
    assert all("skipped" in line for line in told)


def test_standard_input() -> None:
    command = [sys.executable, "-m", "apiserver", "convert", "-f", "-"]
    done = subprocess.run(command, input=OLD, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (NEW, "")


# A manifest, and what is told of it; whether it is left as it is; the exit codes without and with --strict.
TOLD: Final[dict[str, tuple[str, list[str], bool, int, int]]] = {
    "an unknown field": (
        OLD.replace("spec:", "spec:\n  more: 1", 1),
        [
            (
                "document 1, HorizontalPodAutoscaler/web: autoscaling/v1 HorizontalPodAutoscaler has no "
                "field spec.more; the field is omitted"
            )
        ],
        False,
        0,
        1,
    ),
    "a key twice": (
        OLD.replace("spec:", "spec:\n  maxReplicas: 7", 1),
        ['document 1: line 9: key "maxReplicas" already set in map; the last value is used'],
        False,
        0,
        1,
    ),
    "a version that never was": (
        SETTINGS.replace("v1\n", "apps/v3\n", 1),
        [
            (
                "document 1, ConfigMap/x: no release of Kubernetes has apps/v3 ConfigMap; the manifest is "
                "not converted"
            )
        ],
        True,
        1,
        1,
    ),
    "a type of a later release": (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nspec: {}",
        [
            (
                "document 1, DeviceClass: Kubernetes 1.30 has no DeviceClass: "
                "resource.k8s.io/v1 comes with 1.34; the manifest is not converted"
            )
        ],
        True,
        1,
        1,
    ),
    "a wrong type": (
        OLD.replace("maxReplicas: 3", "maxReplicas: many"),
        ["document 1, HorizontalPodAutoscaler/web: "],
        True,
        1,
        1,
    ),
    "no kind": (
        "apiVersion: v1\nmetadata: {}",
        ["document 1, object: apiVersion or kind is missing"],
        True,
        1,
        1,
    ),
    "no object": ("- 1", ["document 1: the manifest is not an object"], True, 1, 1),
    "an item whose version is no text": (
        "apiVersion: v1\nkind: ConfigMapList\nitems: [{apiVersion: [], kind: x}, {apiVersion: v1}]",
        [
            f"document 1, item {n}: apiVersion or kind is missing; the manifest is not converted"
            for n in range(2)
        ],
        True,
        1,
        1,
    ),
    "an item that is none": (
        "apiVersion: v1\nkind: List\nitems: [1]",
        ["document 1, item 0: the manifest is not an object"],
        True,
        1,
        1,
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told(capfd: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    text, expected, stays, code, strict_code = TOLD[name]
    file = tmp_path / "a.yaml"
    file.write_text(text)
    for flags, wanted in (((), code), (("--strict",), strict_code)):
        found, out, told = run(capfd, "-f", file, "--release=1.30", *flags)
        assert found == wanted
        assert len(told) == len(expected)
        for line, beginning in zip(told, expected, strict=True):
            assert line.startswith(f"apiserver convert: {file}, {beginning}")
        assert (yaml.safe_load(out) == yaml.safe_load(text)) is stays


def test_text_that_cannot_be_read_does_not_stop_the_others(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"a: [\n---\n{OLD}---\n{'[' * 100_000}\n")
    code, out, told = run(capfd, "-f", file)
    assert code == 1
    assert [line.partition(": ")[2].partition(": ")[0] for line in told] == [
        f"{file}, document {number}" for number in (1, 3)
    ]
    assert yaml.safe_load(out) == yaml.safe_load(NEW)


def test_ten_thousand_documents(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "---\n".join(f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a-{n}}}\n" for n in range(10_000))
    )
    code, out, told = run(capfd, "-f", file)
    assert (code, told) == (0, [])
    assert out == file.read_text()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "convert: -f needs a file or directory, or - for the standard input"),
        (["-f", "/none"], "convert: /none: No such file or directory"),
        (["-f", "-", "--release=1.99"], "convert: emulation version 1.99 is not between"),
        (
            ["-f", "/none", "--output-version=networking.k8s.io/v1beta"],
            "convert: --output-version: no release of Kubernetes has networking.k8s.io/v1beta",
        ),
        (
            ["-f", "/none", "--output-version=apps"],
            "convert: --output-version: no release of Kubernetes has apps",
        ),
    ],
)
def test_wrong_use(arguments: list[str], why: str) -> None:
    with pytest.raises(UsageError) as error:
        convert.run(arguments)
    assert str(error.value).startswith(why)


CASES: Final[list[dict[str, Any]]] = list(
    yaml.safe_load_all((Path(__file__).parent / "conversions.yaml").read_text())
)
CONVERTER: Final = ManifestConverter(BuiltinSchemas(DEFAULT_RELEASE.version))


def name_of(case: dict[str, Any]) -> str:
    given = case["given"]
    return f"{given['apiVersion']} {given['kind']} {given.get('metadata', {}).get('name', '')}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_what_becomes_of_manifests(case: dict[str, Any]) -> None:
    """What was a default of the old version, and is none of the new one, is written down. Row T31."""
    if "why" in case:
        with pytest.raises(NotConvertible) as error:
            CONVERTER.convert(case["given"], "", DEFAULT_RELEASE.minor)
        assert str(error.value) == case["why"]
        return
    found = CONVERTER.convert(case["given"], "", DEFAULT_RELEASE.minor)
    assert found.document == case.get("converted", case["given"])
    for told in ("unknown", "lost", "refused"):
        assert [*getattr(found, told)] == case.get(told, [])


def test_every_removed_version_has_a_manifest() -> None:
    given = {(case["given"]["apiVersion"], case["given"]["kind"]) for case in CASES}
    removed = {
        (life.group_version, life.kind)
        for life in known_lifecycles().values()
        if life.removed is not None
        and life.removed <= DEFAULT_RELEASE.minor
        and life.stability is not Stability.ALPHA
        and "/" not in life.resource
        and CONVERTER.knows(life.group_version, life.kind)
    }
    assert len(CASES) >= 80
    assert removed - given == set()
