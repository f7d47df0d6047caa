"""Definitions and manifests that are loaded into a server for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.testing import ApiServer, ManifestNotLoaded
from tests.support.objects import config_map

DEFINITION: Final = """\
# As controller-gen writes them.
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  creationTimestamp: null
  name: gadgets.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, kind: Gadget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {since: {type: string}}}}
"""
GADGET: Final = """\
apiVersion: example.com/v1
kind: Gadget
metadata: {name: g, namespace: gadgets}
spec: {since: 2026-01-01}
"""
NAMESPACE: Final = "apiVersion: v1\nkind: Namespace\nmetadata: {name: gadgets}\n"


def test_a_folder_is_loaded_with_definitions_first(server: ApiServer, tmp_path: Path) -> None:
    """Then namespaces, whatever the order of the files; and what looks like a time is text."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "a-gadget.yaml").write_text(GADGET)
    (tmp_path / "b-namespace.yml").write_text(NAMESPACE)
    (tmp_path / "deep" / "c-definition.yaml").write_text(DEFINITION)
    (tmp_path / "notes.txt").write_text("not a manifest")
    server.load(tmp_path)
    code, gadget = server.request("GET", "/apis/example.com/v1/namespaces/gadgets/gadgets/g")
    assert (code, gadget["spec"]) == (200, {"since": "2026-01-01"})


def test_objects_files_and_lists(server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}')
    several = {"apiVersion": "v1", "kind": "List", "items": [config_map("two"), config_map("three")]}
    server.load("one.json", several, [config_map("four", a="1")], root=tmp_path)
    for name in ("one", "two", "three", "four"):
        assert server.request("GET", f"/api/v1/namespaces/default/configmaps/{name}")[0] == 200


def test_what_is_there_is_updated(server: ApiServer) -> None:
    server.load(config_map("a", x="1"))
    server.load(config_map("a", x="2"))
    _, found = server.request("GET", "/api/v1/namespaces/default/configmaps/a")
    assert found["data"] == {"x": "2"}


OK: Final = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ok}\n---\n"
BAD: Final[dict[str, tuple[str, str]]] = {
    "no YAML": (OK + "a: [1,\n", r"bad\.yaml:6: "),
    "no object": (OK + "- 1\n", r"bad\.yaml:5: not an object"),
    "no kind": (OK + "# a comment\napiVersion: v1\n", r"bad\.yaml:6: kind: Required value"),
    "no metadata": (OK + "apiVersion: v1\nkind: Pod\n", r"bad\.yaml:5: metadata: Required value"),
    "a kind that is not served": (
        "apiVersion: v2\nkind: Gizmo\nmetadata: {name: a}\n",
        r"bad\.yaml:1: Gizmo a: v2: the server does not serve the kind 'v2/Gizmo'",
    ),
    "a version that was removed": (
        "apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: a}\n",
        r"bad\.yaml:1: Ingress a: .*'extensions/v1beta1/Ingress'; it serves networking\.k8s\.io/v1/Ingress$",
    ),
    "a key that is there twice": (
        OK + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1'}\ndata: {y: '2'}\n",
        r'bad\.yaml:9: key "data" already set in map',
    ),
    "a field that does not exist": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nbinary: {}\n",
        r"bad\.yaml:1: ConfigMap a: 400 .*field not declared in schema",
    ),
    "a namespace that does not exist": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: nowhere}\n",
        r'bad\.yaml:1: ConfigMap a: 404 namespaces "nowhere" not found',
    ),
    "a definition that is not valid": (
        DEFINITION.replace("name: gadgets.example.com", "name: other.example.com"),
        r"bad\.yaml:3: CustomResourceDefinition other\.example\.com: 422 .*must be spec\.names\.plural",
    ),
}


def test_a_merge_may_be_overridden(server: ApiServer, tmp_path: Path) -> None:
    path = tmp_path / "merged.yaml"
    path.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: merged, labels: &both {a: x, b: x}}\n"
        "data: {<<: *both, b: y}\n"
    )
    server.load(path)
    _, found = server.request("GET", "/api/v1/namespaces/default/configmaps/merged")
    assert found["data"] == {"a": "x", "b": "y"}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_what_does_not_load(original: ApiServer, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ManifestNotLoaded, match=message):
        original.load(path)


def test_the_status_of_a_refusal_is_told(original: ApiServer) -> None:
    with pytest.raises(ManifestNotLoaded) as raised:
        original.load(config_map("Bad_Name"))
    assert (raised.value.code, raised.value.status["reason"]) == (422, "Invalid")


def test_files_that_are_not_there(original: ApiServer, tmp_path: Path) -> None:
    with pytest.raises(ManifestNotLoaded, match="No such file"):
        original.load(tmp_path / "none.yaml")
    with pytest.raises(ManifestNotLoaded, match=r"no file ends with \.yaml"):
        original.load(tmp_path)


def test_what_is_no_manifest(server: ApiServer) -> None:
    nothing: Any = [None]
    with pytest.raises(ManifestNotLoaded, match=r"^None: not a file, a directory or an object$"):
        server.load(nothing)


def test_a_definition_whose_names_are_taken(server: ApiServer, tmp_path: Path) -> None:
    """It is stored, and never served."""
    (tmp_path / "a.yaml").write_text(DEFINITION)
    (tmp_path / "b.yaml").write_text(DEFINITION.replace("gadgets", "others"))
    with pytest.raises(ManifestNotLoaded) as raised:
        server.load(tmp_path)
    assert raised.value.place == f"{tmp_path}/b.yaml:3: CustomResourceDefinition others.example.com"
    assert str(raised.value).endswith(': ListKindConflict: "GadgetList" is already in use')
