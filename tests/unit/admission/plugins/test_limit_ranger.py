"""What a LimitRange gives to containers, and what it says of those that do not fit."""

from __future__ import annotations

from typing import Any, Final

import pytest

from apiserver.admission.plugins.limit_ranger import ANNOTATION, claim_problems, pod_problems, set_defaults

Needs = dict[str, dict[str, str]]


def limit_range(**item: Any) -> dict[str, Any]:
    return {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **item}]}}


def pod(*needs: Needs, init: tuple[Needs, ...] = ()) -> dict[str, Any]:
    containers = [{"name": f"c{n}", "resources": each} for n, each in enumerate(needs)]
    first = [{"name": f"i{n}", "resources": each} for n, each in enumerate(init)]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": first}}


# ---- defaults

DEFAULTS: Final = limit_range(default={"cpu": "500m", "memory": "1Gi"}, defaultRequest={"cpu": "100m"})
BOTH: Final = {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m", "memory": "1Gi"}}


def test_containers_that_ask_for_nothing() -> None:
    """The annotation tells requests before limits, and containers before those that come first."""
    given = pod({}, init=({},))
    set_defaults(given, DEFAULTS)
    assert [each["resources"] for each in given["spec"]["containers"]] == [BOTH]
    assert [each["resources"] for each in given["spec"]["initContainers"]] == [BOTH]
    assert given["metadata"]["annotations"] == {
        ANNOTATION: "LimitRanger plugin set: cpu request for container c0; "
        "cpu, memory limit for container c0; cpu request for init container i0; "
        "cpu, memory limit for init container i0"
    }


def test_what_containers_say_counts() -> None:
    said = {"requests": {"cpu": "2"}, "limits": {"memory": "1Mi"}}
    given = pod(said)
    set_defaults(given, DEFAULTS)
    (container,) = given["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "500m", "memory": "1Mi"}}
    assert (
        given["metadata"]["annotations"][ANNOTATION] == "LimitRanger plugin set: cpu limit for container c0"
    )


def test_nothing_to_give() -> None:
    """Other types of limits are no defaults, and other annotations stay."""
    given = pod(BOTH)
    given["metadata"]["annotations"] = {"a": "b"}
    set_defaults(given, DEFAULTS)
    set_defaults(given, limit_range(type="Pod", default={"ephemeral-storage": "1"}))
    assert given == {**pod(BOTH), "metadata": {"name": "p", "annotations": {"a": "b"}}}


# ---- bounds

MIN, MAX, RATIO = {"min": {"cpu": "100m"}}, {"max": {"cpu": "1"}}, {"maxLimitRequestRatio": {"cpu": "2"}}
POD_MAX: Final = {"type": "Pod", "max": {"memory": "2Gi"}}


def needs(request: str = "", limit: str = "", name: str = "cpu") -> Needs:
    given = {"requests": {name: request}, "limits": {name: limit}}
    return {field: values for field, values in given.items() if values[name]}


# The texts are those of kube-apiserver.
BOUNDS: Final[dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]]] = {
    "enough": (MIN, pod(needs("100m")), []),
    "just enough, told otherwise": (MIN, pod(needs("0.1")), []),
    "too little": (MIN, pod(needs("99m")), ["minimum cpu usage per Container is 100m, but request is 99m"]),
    "too low a limit": (
        MIN,
        pod(needs("100m", "50m")),
        ["minimum cpu usage per Container is 100m, but limit is 50m"],
    ),
    "nothing said where there is a least": (
        MIN,
        pod({}),
        ["minimum cpu usage per Container is 100m.  No request is specified"],
    ),
    "the most": (MAX, pod(needs("1", "1000m")), []),
    "too much": (MAX, pod(needs("1", "1001m")), ["maximum cpu usage per Container is 1, but limit is 1001m"]),
    "too large a request": (
        MAX,
        pod(needs("2", "1")),
        ["maximum cpu usage per Container is 1, but request is 2"],
    ),
    "nothing said where there is a most": (
        MAX,
        pod({}),
        ["maximum cpu usage per Container is 1.  No limit is specified"],
    ),
    "a container that comes first": (
        MAX,
        pod(needs("1", "1"), init=(needs("1", "3"),)),
        ["maximum cpu usage per Container is 1, but limit is 3"],
    ),
    "twice as much": (RATIO, pod(needs("1", "2")), []),
    "more than that": (
        RATIO,
        pod(needs("1", "2500m")),
        ["cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000"],
    ),
    "no request to compare with": (
        RATIO,
        pod(needs("", "1")),
        ["cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"],
    ),
    "no limit to compare with": (
        RATIO,
        pod(needs("1")),
        ["cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"],
    ),
    "both bounds": (
        {**MIN, **MAX},
        pod({}),
        [
            "minimum cpu usage per Container is 100m.  No request is specified",
            "maximum cpu usage per Container is 1.  No limit is specified",
        ],
    ),
    "a pod as large as its containers together": (
        POD_MAX,
        pod(needs("1Gi", "1Gi", "memory"), needs("1Gi", "1Gi", "memory")),
        [],
    ),
    "a pod that is larger": (
        POD_MAX,
        pod(needs("1Gi", "1Gi", "memory"), needs("1Gi", "1025Mi", "memory")),
        ["maximum memory usage per Pod is 2Gi, but limit is 2049Mi"],
    ),
    "or than what comes before": (
        POD_MAX,
        pod(needs("1Gi", "1Gi", "memory"), init=(needs("3Gi", "3Gi", "memory"),)),
        ["maximum memory usage per Pod is 2Gi, but limit is 3Gi"],
    ),
    "limits of claims": ({"type": "PersistentVolumeClaim", "min": {"cpu": "1"}}, pod({}), []),
}


@pytest.mark.parametrize(("item", "given", "texts"), BOUNDS.values(), ids=BOUNDS)
def test_bounds_of_pods(item: dict[str, Any], given: dict[str, Any], texts: list[str]) -> None:
    assert list(pod_problems(given, limit_range(**item))) == texts


def test_the_pod_says_it_all() -> None:
    """Resources of a pod as a whole go before those of its containers."""
    given = pod(needs("1Gi", "1Gi", "memory"))
    given["spec"]["resources"] = {"requests": {"memory": "3Gi"}, "limits": {"memory": "3Gi"}}
    (text,) = pod_problems(given, limit_range(**POD_MAX))
    assert text == "maximum memory usage per Pod is 2Gi, but limit is 3Gi"


CLAIMS: Final = {
    "between": ("2Gi", []),
    "the least": ("1024Mi", []),
    "too small": ("1Mi", ["minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"]),
    "too large": ("3Gi", ["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"]),
}


@pytest.mark.parametrize(("size", "texts"), CLAIMS.values(), ids=CLAIMS)
def test_bounds_of_claims(size: str, texts: list[str]) -> None:
    claim = {"metadata": {}, "spec": {"resources": {"requests": {"storage": size}}}}
    bounds = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    assert list(claim_problems(claim, limit_range(**bounds))) == texts
    assert list(claim_problems(claim, limit_range(**{**bounds, "type": "Pod"}))) == []
