"""What PodPresets add to a pod, and when they conflict.

Source: kubernetes, plugin/pkg/admission/podpreset/admission_test.go, release 1.18.
"""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.admission.plugins.pod_presets import ANNOTATION, PresetConflict, merge, work_of_merge
from apiserver.load.size_class import HUGE_BYTES, SizeClass


def preset(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": "7"}, "spec": {"selector": {}, **spec}}


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod with these containers, and without any one with a container that has nothing."""
    return {"metadata": {"name": "x"}, "spec": {"containers": list(containers or ({},)), **spec}}


def env(**values: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def mount(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **more}


def source(name: str, **more: Any) -> dict[str, Any]:
    return {"configMapRef": {"name": name}, **more}


EMPTY: Final = {"name": "v", "emptyDir": {}}
MEMORY: Final = {"name": "v", "emptyDir": {"medium": "Memory"}}
OTHER: Final = {"name": "w", "emptyDir": {}}

# The pod, the presets, and the spec of the pod with them.
MERGED: Final[dict[str, tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]]] = {
    "variables to a container that has none": (
        pod(),
        [preset(env=env(A="1", a="2"))],
        {"containers": [{"env": env(A="1", a="2")}]},
    ),
    "variables behind those of the container": (
        pod({"env": env(B="1")}),
        [preset(env=env(A="2"))],
        {"containers": [{"env": env(B="1", A="2")}]},
    ),
    "a variable that the container has already": (
        pod({"env": env(A="1", B="2")}),
        [preset(env=env(A="1", C="3"))],
        {"containers": [{"env": env(A="1", B="2", C="3")}]},
    ),
    "to all containers, and to those that come first": (
        pod({"name": "a"}, {"name": "b", "env": env(A="1")}, initContainers=[{"name": "c"}]),
        [preset(env=env(A="1"))],
        {
            "containers": [{"name": "a", "env": env(A="1")}, {"name": "b", "env": env(A="1")}],
            "initContainers": [{"name": "c", "env": env(A="1")}],
        },
    ),
    "sources, in their order": (
        pod({"envFrom": [source("a"), source("b")]}),
        [preset(envFrom=[source("a")]), preset("q", envFrom=[source("c", prefix="C_")])],
        {"containers": [{"envFrom": [source(each) for each in "aba"] + [source("c", prefix="C_")]}]},
    ),
    "sources that are the last ones anyway": (
        pod({"envFrom": [source("b"), source("a")]}),
        [preset(envFrom=[source("a")])],
        {"containers": [{"envFrom": [source("b"), source("a")]}]},
    ),
    "a volume and its mounts": (
        pod({"volumeMounts": [mount("etc", "/etc")]}, volumes=[OTHER]),
        [preset(volumes=[EMPTY], volumeMounts=[mount("v", "/v")])],
        {
            "containers": [{"volumeMounts": [mount("etc", "/etc"), mount("v", "/v")]}],
            "volumes": [OTHER, EMPTY],
        },
    ),
    "a volume and a mount that the pod has already": (
        pod({"volumeMounts": [mount("v", "/v")]}, volumes=[EMPTY]),
        [preset(volumes=[EMPTY, OTHER], volumeMounts=[mount("v", "/v")])],
        {"containers": [{"volumeMounts": [mount("v", "/v")]}], "volumes": [EMPTY, OTHER]},
    ),
    "what two presets have in common": (
        pod(),
        [preset(env=env(A="1"), volumes=[EMPTY]), preset("q", env=env(A="1", B="2"), volumes=[EMPTY])],
        {"containers": [{"env": env(A="1", B="2")}], "volumes": [EMPTY]},
    ),
    "volumes to a pod without containers": (
        {"metadata": {}, "spec": {}},
        [preset(env=env(A="1"), volumes=[EMPTY])],
        {"volumes": [EMPTY]},
    ),
    "a preset that has nothing": ({"metadata": {}, "spec": {}}, [{"metadata": preset()["metadata"]}], {}),
}


@pytest.mark.parametrize(("given_pod", "presets", "spec"), MERGED.values(), ids=MERGED)
def test_what_is_merged(
    given_pod: dict[str, Any], presets: list[dict[str, Any]], spec: dict[str, Any]
) -> None:
    before = copy.deepcopy(given_pod)
    merged = merge(given_pod, presets)
    assert merged["spec"] == spec
    assert given_pod == before, "it is not changed itself"
    assert merge(merged, presets) == merged, "once is enough"


def test_annotations_name_the_presets() -> None:
    given_pod = pod()
    given_pod["metadata"]["annotations"] = {"a": "b", f"{ANNOTATION}p": "3"}
    assert merge(given_pod, [preset(), preset("q")])["metadata"] == {
        "name": "x",
        "annotations": {"a": "b", f"{ANNOTATION}p": "7", f"{ANNOTATION}q": "7"},
    }


# The pod, the presets, and what the conflict is.
CONFLICTS: Final[dict[str, tuple[dict[str, Any], list[dict[str, Any]], tuple[str, str, str, str]]]] = {
    "a variable": (
        pod({}, {"env": env(A="1")}),
        [preset(env=env(B="1", A="2"))],
        ("p", "env[1]", "name", "spec.containers[1]"),
    ),
    "a variable of an init container": (
        pod(initContainers=[{"env": env(A="1")}]),
        [preset(env=env(A="2"))],
        ("p", "env[0]", "name", "spec.initContainers[0]"),
    ),
    "a variable that comes from elsewhere": (
        pod({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
        [preset(env=[{"name": "A"}])],
        ("p", "env[0]", "name", "spec.containers[0]"),
    ),
    "variables of two presets": (
        pod(),
        [preset(env=env(A="1")), preset("q", env=env(A="2"))],
        ("q", "env[0]", "name", "spec.containers[0]"),
    ),
    "a volume": (
        pod(volumes=[EMPTY]),
        [preset(volumes=[MEMORY])],
        ("p", "volumes[0]", "name", "spec"),
    ),
    "volumes of two presets": (
        pod(),
        [preset(volumes=[EMPTY]), preset("q", volumes=[OTHER, MEMORY])],
        ("q", "volumes[1]", "name", "spec"),
    ),
    "one volume at two places": (
        pod({"volumeMounts": [mount("v", "/a")]}),
        [preset(volumeMounts=[mount("v", "/b")])],
        ("p", "volumeMounts[0]", "name", "spec.containers[0]"),
    ),
    "one volume at two places, in one preset": (
        pod(),
        [preset(volumeMounts=[mount("v", "/a"), mount("v", "/b")])],
        ("p", "volumeMounts[1]", "name", "spec.containers[0]"),
    ),
    "two volumes at one place": (
        pod({"volumeMounts": [mount("v", "/a")]}),
        [preset(volumeMounts=[mount("w", "/a")])],
        ("p", "volumeMounts[0]", "mountPath", "spec.containers[0]"),
    ),
    "a mount that may be written": (
        pod({"volumeMounts": [mount("v", "/a", readOnly=True)]}),
        [preset(volumeMounts=[mount("v", "/a")])],
        ("p", "volumeMounts[0]", "name", "spec.containers[0]"),
    ),
}


@pytest.mark.parametrize(("given_pod", "presets", "facts"), CONFLICTS.values(), ids=CONFLICTS)
def test_what_is_not_merged(
    given_pod: dict[str, Any], presets: list[dict[str, Any]], facts: tuple[str, str, str, str]
) -> None:
    before = copy.deepcopy(given_pod)
    with pytest.raises(PresetConflict) as raised:
        merge(given_pod, presets)
    found = raised.value
    assert (found.preset, found.item, found.key, found.place) == facts
    assert given_pod == before


def test_who_changes_one_container_changes_no_other() -> None:
    presets = [preset(volumeMounts=[mount("v", "/v")], envFrom=[source("a")])]
    first, second = merge(pod({}, {}), presets)["spec"]["containers"]
    first["volumeMounts"][0]["readOnly"] = True
    first["envFrom"][0]["prefix"] = "P_"
    assert second == {"volumeMounts": [mount("v", "/v")], "envFrom": [source("a")]}
    assert presets == [preset(volumeMounts=[mount("v", "/v")], envFrom=[source("a")])]


WORK: Final[dict[str, tuple[dict[str, Any], int, SizeClass]]] = {
    "little": (pod(), 100, SizeClass.SMALL),
    "a large preset": (pod(), HUGE_BYTES, SizeClass.LARGE),
    "many containers": (pod(*[{}] * 1_001), 100, SizeClass.HUGE),
    "many variables": (pod({"env": [{"name": "A"}] * 10_000}), 100, SizeClass.HUGE),
    "many volumes": (pod(volumes=[EMPTY] * 1_000), 100, SizeClass.LARGE),
}


@pytest.mark.parametrize(("given_pod", "added_bytes", "size"), WORK.values(), ids=WORK)
def test_what_is_much_work(given_pod: dict[str, Any], added_bytes: int, size: SizeClass) -> None:
    assert work_of_merge(given_pod["spec"], added_bytes) is size


# ---- whatever pods and presets have

variables = st.lists(
    st.builds(lambda n, v: {"name": n, "value": v}, st.sampled_from("AB"), st.sampled_from("12"))
)
sources = st.lists(st.builds(source, st.sampled_from("ab")), max_size=3)
mounts = st.lists(st.builds(mount, st.sampled_from("vw"), st.sampled_from(("/a", "/b"))), max_size=2)
volumes = st.lists(st.sampled_from((EMPTY, MEMORY, OTHER)), max_size=2)
of_containers = {"env": variables, "envFrom": sources, "volumeMounts": mounts}
container_lists = st.lists(st.fixed_dictionaries({}, optional=of_containers), max_size=3)
pods = st.builds(
    lambda spec: {"metadata": {"name": "x"}, "spec": spec},
    st.fixed_dictionaries(
        {"containers": container_lists},
        optional={"initContainers": container_lists, "volumes": volumes, "nodeName": st.just("n")},
    ),
)
preset_lists = st.lists(
    st.fixed_dictionaries({}, optional={**of_containers, "volumes": volumes}), max_size=3
).map(lambda specs: [preset(f"p{index}", **spec) for index, spec in enumerate(specs)])


@given(given_pod=pods, presets=preset_lists)
def test_nothing_of_the_pod_is_lost_and_all_of_the_presets_is_there(
    given_pod: dict[str, Any], presets: list[dict[str, Any]]
) -> None:
    try:
        merged = merge(given_pod, presets)
    except PresetConflict:
        return
    assert merge(merged, presets) == merged
    assert merged["spec"].keys() - given_pod["spec"].keys() <= {"volumes"}
    specs = [each["spec"] for each in presets]
    assert_extended(given_pod["spec"], merged["spec"], specs, ("volumes",))
    for field in ("containers", "initContainers"):
        for before, after in zip(
            given_pod["spec"].get(field, ()), merged["spec"].get(field, ()), strict=True
        ):
            assert_extended(before, after, specs, tuple(of_containers))


def assert_extended(
    before: dict[str, Any], after: dict[str, Any], specs: list[dict[str, Any]], fields: tuple[str, ...]
) -> None:
    """Lists begin with what they had, and have all that presets have, and nothing else."""
    for field in fields:
        had, has = before.get(field, []), after.get(field, [])
        added = [item for spec in specs for item in spec.get(field, ())]
        assert has[: len(had)] == had
        assert all(item in has for item in added)
        assert all(item in added for item in has[len(had) :])
