"""What small plugins make of pods: tolerations, the account's token, and secrets that may not be used."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.admission.configuration.pod_node_selector import LABELS_MAX, InvalidSelector, labels_of
from apiserver.admission.plugins.always_pull_images import always_pull, problems
from apiserver.admission.plugins.service_account import mirror_problem, mount_token, unmountable_secret
from apiserver.admission.plugins.tolerations import (
    COMPARED_MAX,
    add_tolerations,
    includes,
    merged,
    tolerate_resources,
    tolerations_of,
)

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"

# ---- DefaultTolerationSeconds

STAY_S: Final = {NOT_READY: 300, UNREACHABLE: 300}


def toleration(key: str = "", effect: str = "", operator: str = "Exists", **more: Any) -> dict[str, Any]:
    fields = {"key": key, "operator": operator, "effect": effect}
    return {name: value for name, value in fields.items() if value} | more


def stays(key: str) -> dict[str, Any]:
    return toleration(key, "NoExecute", tolerationSeconds=300)


TOLERATIONS: Final[dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]]] = {
    "none": ([], [stays(NOT_READY), stays(UNREACHABLE)]),
    "another": ([toleration("a")], [stays(NOT_READY), stays(UNREACHABLE)]),
    "one of them": ([toleration(NOT_READY, "NoExecute", tolerationSeconds=5)], [stays(UNREACHABLE)]),
    "one of them, whatever the effect": ([toleration(UNREACHABLE)], [stays(NOT_READY)]),
    "one of them, with another effect": (
        [toleration(NOT_READY, "NoSchedule")],
        [stays(NOT_READY), stays(UNREACHABLE)],
    ),
    "all taints": ([toleration()], []),
    "all that drive pods away": ([toleration(effect="NoExecute")], []),
    "all that keep pods away": ([toleration(effect="NoSchedule")], [stays(NOT_READY), stays(UNREACHABLE)]),
}


@pytest.mark.parametrize(("there", "added"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_tolerations_of_lost_nodes(there: list[dict[str, Any]], added: list[dict[str, Any]]) -> None:
    spec: dict[str, Any] = {"tolerations": list(there)}
    add_tolerations(spec, STAY_S)
    assert spec["tolerations"] == there + added
    add_tolerations(spec, STAY_S)
    assert spec["tolerations"] == there + added, "once is enough"


# ---- RuntimeClass

A, B = toleration("a", "NoSchedule"), toleration("b")
LIKE_A: Final = toleration("a", "NoSchedule", "Equal", value="v")
MERGED: Final[dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]]] = {
    "different ones": ([A], [B], [A, B]),
    "the same one": ([A, B], [A], [A, B]),
    "one that is contained in another": ([LIKE_A], [A], [A]),
    "or the other way round": ([A], [LIKE_A], [A]),
    "one that contains everything": ([A, B], [toleration()], [toleration()]),
    "another value": ([LIKE_A], [{**LIKE_A, "value": "w"}], [LIKE_A, {**LIKE_A, "value": "w"}]),
    "one that stays longer": (
        [toleration("a", "NoExecute", tolerationSeconds=1)],
        [toleration("a", "NoExecute", tolerationSeconds=9)],
        [toleration("a", "NoExecute", tolerationSeconds=9)],
    ),
    "one that stays for ever": (
        [toleration("a", "NoExecute")],
        [toleration("a", "NoExecute", tolerationSeconds=9)],
        [toleration("a", "NoExecute")],
    ),
}


@pytest.mark.parametrize(("first", "second", "expected"), MERGED.values(), ids=MERGED)
def test_tolerations_of_the_pod_and_its_runtime(
    first: list[dict[str, Any]], second: list[dict[str, Any]], expected: list[dict[str, Any]]
) -> None:
    assert merged(first, second) == expected


_ANY: Final = st.builds(
    toleration, st.sampled_from(["", "a", "b"]), st.sampled_from(["", "NoExecute", "NoSchedule"])
)


@given(st.lists(_ANY, max_size=5), st.lists(_ANY, max_size=5))
def test_merging_again_changes_nothing(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
    once = merged(first, second)
    assert merged(once, second) == once
    assert all(each in first or each in second for each in once)


def test_more_than_are_compared() -> None:
    """The work has a bound; those that are the same are still told once."""
    many = [toleration(f"k{n}") for n in range(COMPARED_MAX)]
    assert merged([*many, toleration()], many) == [*many, toleration()]


# ---- ServiceAccount

PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


def mount(name: str) -> dict[str, Any]:
    return {"name": name, "readOnly": True, "mountPath": PATH}


def test_the_token_is_mounted_in_all_containers() -> None:
    own = {"name": "own", "mountPath": "/own"}
    spec: dict[str, Any] = {
        "volumes": [{"name": "own"}],
        "initContainers": [{"name": "i"}],
        "containers": [{"name": "c", "volumeMounts": [own]}, {"name": "d"}],
    }
    mount_token(spec, "new")
    assert [each["name"] for each in spec["volumes"]] == ["own", "new"]
    assert [each["volumeMounts"] for each in spec["containers"]] == [[own, mount("new")], [mount("new")]]
    assert spec["initContainers"][0]["volumeMounts"] == [mount("new")]


def test_what_is_in_the_place_of_the_token_stays() -> None:
    mine = {"name": "mine", "mountPath": PATH}
    spec: dict[str, Any] = {"containers": [{"name": "c", "volumeMounts": [mine]}]}
    mount_token(spec, "new")
    assert spec == {"containers": [{"name": "c", "volumeMounts": [mine]}]}


def test_a_volume_that_is_there_is_used() -> None:
    there = {"name": "kube-api-access-abcde", "projected": {}}
    spec: dict[str, Any] = {"volumes": [there], "containers": [{"name": "c"}]}
    mount_token(spec, "new")
    assert spec["volumes"] == [there]
    assert spec["containers"][0]["volumeMounts"] == [mount("kube-api-access-abcde")]


def env(secret: str) -> dict[str, Any]:
    return {"name": "c", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}]}


SECRETS: Final[dict[str, dict[str, Any]]] = {
    "pulls": {"imagePullSecrets": [{"name": "s"}]},
    "environment": {"containers": [env("s")]},
    "whole environment": {"initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]},
    "volume": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
    "part of a volume": {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]},
    "driver": {"volumes": [{"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}]},
}


@pytest.mark.parametrize("spec", SECRETS.values(), ids=SECRETS)
def test_mirror_pods_refer_to_no_secrets(spec: dict[str, Any]) -> None:
    assert mirror_problem({"containers": [{"name": "c"}], **spec}) == "a mirror pod may not reference secrets"


def test_mirror_pods_have_no_account() -> None:
    assert mirror_problem({"containers": [{"name": "c", "env": [{"name": "E", "value": "v"}]}]}) is None
    assert mirror_problem({"serviceAccountName": "a"}) == "a mirror pod may not reference service accounts"
    token = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
    assert mirror_problem({"volumes": [token]}) == (
        "a mirror pod may not use ServiceAccountToken volume projections"
    )


ACCOUNT: Final = {
    "metadata": {"name": "a"},
    "secrets": [{"name": "mine"}],
    "imagePullSecrets": [{"name": "pull"}],
}
REFUSED: Final = "is not allowed because service account a does not reference that"
UNMOUNTABLE: Final[dict[str, tuple[dict[str, Any], str | None]]] = {
    "what the account names": (
        {
            "containers": [env("mine")],
            "imagePullSecrets": [{"name": "pull"}],
            "volumes": [{"name": "v", "secret": {"secretName": "mine"}}],
        },
        None,
    ),
    "a volume": (
        {"volumes": [{"name": "v", "secret": {"secretName": "other"}}]},
        f'volume with secret.secretName="other" {REFUSED} secret',
    ),
    "a variable": (
        {"containers": [env("other")]},
        f'container c with envVar E referencing secret.secretName="other" {REFUSED} secret',
    ),
    "a variable of what comes first": (
        {"initContainers": [env("other")]},
        f'init container c with envVar E referencing secret.secretName="other" {REFUSED} secret',
    ),
    "a pull": (
        {"imagePullSecrets": [{"name": "pull"}, {"name": "mine"}]},
        f'imagePullSecrets[1].name="mine" {REFUSED} imagePullSecret',
    ),
}


@pytest.mark.parametrize(("spec", "text"), UNMOUNTABLE.values(), ids=UNMOUNTABLE)
def test_accounts_that_insist_on_their_secrets(spec: dict[str, Any], text: str | None) -> None:
    assert unmountable_secret(spec, ACCOUNT, "initContainers", "containers") == text


def test_containers_that_are_added_later() -> None:
    """The rest of the pod has been looked at when it was made."""
    spec = {"containers": [env("other")], "ephemeralContainers": [env("mine")]}
    assert unmountable_secret(spec, ACCOUNT, "ephemeralContainers") is None
    spec["ephemeralContainers"] = [env("other")]
    assert unmountable_secret(spec, ACCOUNT, "ephemeralContainers") == (
        f'ephemeral container c with envVar E referencing secret.secretName="other" {REFUSED} secret'
    )


# ---- AlwaysPullImages


def pulled(image: str, policy: str = "Always", **fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"image": image, "imagePullPolicy": policy}], **fields}}


def test_all_images_are_pulled() -> None:
    volumes = [{"name": "v", "image": {"reference": "i"}}, {"name": "w", "emptyDir": {}}]
    others = {"initContainers": [{"image": "j"}], "ephemeralContainers": [{"image": "k"}], "volumes": volumes}
    given = pulled("i", "Never", **others)
    assert problems(given, None) == [
        'spec.containers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always"',
        'spec.initContainers[0].imagePullPolicy: Unsupported value: "": supported values: "Always"',
        'spec.ephemeralContainers[0].imagePullPolicy: Unsupported value: "": supported values: "Always"',
        'spec.volumes[0].image.pullPolicy: Unsupported value: "": supported values: "Always"',
    ]
    always_pull(given, None)
    assert problems(given, None) == []
    assert given["spec"]["volumes"][1] == {"name": "w", "emptyDir": {}}


def test_updates_that_bring_no_image_pass() -> None:
    """Pods were there before the plugin was enabled."""
    assert problems(pulled("i", "Never"), pulled("i", "Never")) == []
    assert problems(pulled("j", "Never"), pulled("i", "Never")) != []


# ---- ExtendedResourceToleration

GPU: Final = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def asking(*names: str, **fields: Any) -> dict[str, Any]:
    requests = dict.fromkeys(names, "1")
    return {"containers": [{"resources": {"requests": requests}}], "initContainers": [{}], **fields}


RESOURCES: Final[dict[str, tuple[dict[str, Any], list[dict[str, Any]] | None]]] = {
    "none": (asking(), None),
    "Kubernetes' own": (asking("cpu", "hugepages-2Mi"), None),
    "extended ones": (asking("example.com/gpu", "b.io/a"), [{**GPU, "key": "b.io/a"}, GPU]),
    "one that is tolerated already": (asking("example.com/gpu", tolerations=[GPU]), [GPU]),
    "one that is tolerated otherwise": (
        asking("example.com/gpu", tolerations=[{**GPU, "effect": "NoExecute"}]),
        [{**GPU, "effect": "NoExecute"}, GPU],
    ),
}


@pytest.mark.parametrize(("spec", "tolerations"), RESOURCES.values(), ids=RESOURCES)
def test_resources_that_are_tolerated(spec: dict[str, Any], tolerations: Any) -> None:
    tolerate_resources(spec)
    assert spec.get("tolerations") == tolerations


# ---- PodTolerationRestriction

INCLUDED: Final[dict[str, tuple[dict[str, Any], dict[str, Any], bool]]] = {
    "the same": (toleration("k", operator="Equal"), toleration("k", operator="Equal"), True),
    "all of a key": (toleration("k"), toleration("k", "NoExecute", "Equal", value="v"), True),
    "all": (toleration(), toleration("k"), True),
    "another key": (toleration("k"), toleration("l"), False),
    "another effect": (toleration("k", "NoExecute"), toleration("k", "NoSchedule"), False),
    "a shorter time": (
        toleration("k", "NoExecute", tolerationSeconds=9),
        toleration("k", "NoExecute", tolerationSeconds=8),
        True,
    ),
    "for ever": (toleration("k", "NoExecute", tolerationSeconds=9), toleration("k", "NoExecute"), False),
}


@pytest.mark.parametrize(("wide", "narrow", "is_included"), INCLUDED.values(), ids=INCLUDED)
def test_tolerations_that_are_allowed(wide: Any, narrow: Any, *, is_included: bool) -> None:
    assert includes(wide, narrow) is is_included


# ---- PodTolerationRestriction

ANNOTATIONS: Final[dict[str, tuple[str, list[dict[str, Any]]]]] = {
    "all fields": (
        '[{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 5}]',
        [toleration("k", "NoExecute", "Equal", value="v", tolerationSeconds=5)],
    ),
    "fields that it does not have": ('[{"key": "k", "operator": "Exists", "x": [{}]}]', [toleration("k")]),
    "letters of the other case": ('[{"Key": "k", "OPERATOR": "Exists"}]', [toleration("k")]),
    "null": ('[{"key": "k", "operator": "Exists", "value": null}, null]', [toleration("k"), {}]),
    "empty": ('[{"key": "", "operator": "Exists"}]', [toleration()]),
    "nothing": ("null", []),
}


@pytest.mark.parametrize(("text", "tolerations"), ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_tolerations_of_a_namespace(text: str, tolerations: list[dict[str, Any]]) -> None:
    found = tolerations_of(text)
    assert found == tolerations
    assert merged(found, []) == tolerations


NO_TOLERATIONS: Final = (
    "x",
    "{}",
    "[1]",
    '[{"key": 1}]',
    '[{"tolerationSeconds": 1.0}]',
    '[{"tolerationSeconds": 9223372036854775808}]',
)


@pytest.mark.parametrize("text", NO_TOLERATIONS)
def test_what_is_no_list_of_tolerations(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        tolerations_of(text)


# ---- PodNodeSelector

SELECTORS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "nothing": ("", {}),
    "one": ("a=b", {"a": "b"}),
    "several, with spaces": (" a = b,c.io/d=", {"a": "b", "c.io/d": ""}),
    "the last value counts": ("a=b,a=c", {"a": "c"}),
}


@pytest.mark.parametrize(("text", "labels"), SELECTORS.values(), ids=SELECTORS)
def test_selectors_of_nodes(text: str, labels: dict[str, str]) -> None:
    assert labels_of(text) == labels


@pytest.mark.parametrize("text", ["a", "a==b", "a!=b", "a in (b)", ",", "a=b,", "-=b", "a=b c", "=b"])
def test_what_is_no_selector_of_nodes(text: str) -> None:
    with pytest.raises(InvalidSelector):
        labels_of(text)


@pytest.mark.parametrize("part", ["x" * 100_000, f"{'x' * 100_000}=y"])
def test_what_is_no_selector_of_nodes_is_told_by_its_beginning(part: str) -> None:
    with pytest.raises(InvalidSelector) as refused:
        labels_of(part)
    assert len(str(refused.value)) < 10_000


def test_a_selector_of_nodes_has_a_bound() -> None:
    assert len(labels_of(",".join(f"a{number}=b" for number in range(LABELS_MAX)))) == LABELS_MAX
    with pytest.raises(InvalidSelector, match=f"at most {LABELS_MAX} labels"):
        labels_of("a=b," * LABELS_MAX + "a=b")
