"""The memo of valid pod specs: it changes no answer."""

from __future__ import annotations

import copy
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.catalogue.builtin_type import DEFAULT_GATES
from apiserver.catalogue.pod_specs import validation
from apiserver.catalogue.pod_specs.valid_specs import ValidSpecs, digest_of

Document = dict[str, Any]


def spec(volume: str = "kube-api-access-x2x4z", mounted: str = "", **more: Any) -> Document:
    """As it is after defaulting."""
    container = {
        "name": "a",
        "image": "a:1",
        "resources": {},
        "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [{"name": mounted or volume, "mountPath": "/var/run/secrets"}],
    }
    return {
        "containers": [container],
        "volumes": [{"name": volume, "emptyDir": {}}],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        **more,
    }


RULES: Final = validation.rules_of(DEFAULT_GATES)
POD: Final = validation.PodIdentity("p", is_static=False)
EPHEMERAL: Final = {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}}
PAIRS: Final[dict[str, tuple[Document, Document, bool]]] = {
    "the same": (spec(), spec(), True),
    "another name of the token's volume": (spec(), spec("kube-api-access-abcde"), True),
    "not mounted any more": (spec(), spec("kube-api-access-abcde", "kube-api-access-x2x4z"), False),
    "a name that only looks like one": (spec(), spec("kube-api-access-abcdef"), False),
    "a name that stands for none": (spec(), spec("\x00"), False),
    "another volume": (spec(), spec("data"), False),
    "a field more": (spec(), spec(hostNetwork=True), False),
    "a number for true": (spec(hostNetwork=True), spec(hostNetwork=1), False),
    "two that could be it": (
        spec() | {"volumes": [{"name": "kube-api-access-aaaaa"}, {"name": "kube-api-access-bbbbb"}]},
        spec() | {"volumes": [{"name": "kube-api-access-aaaaa"}, {"name": "kube-api-access-aaaaa"}]},
        False,
    ),
}


@pytest.mark.parametrize(("one", "other", "is_same"), PAIRS.values(), ids=PAIRS)
def test_which_specs_have_the_same_digest(one: Document, other: Document, is_same: bool) -> None:
    assert (digest_of(one) == digest_of(other)) is is_same


@pytest.mark.parametrize(
    "counts",
    [spec(volumes=[EPHEMERAL]), spec(terminationGracePeriodSeconds=1 << 70)],
    ids=["a volume that is named after the pod", "a number that JSON has not"],
)
def test_specs_that_have_no_digest(counts: Document) -> None:
    assert digest_of(counts) is None


def test_the_memo_has_a_bound() -> None:
    specs = ValidSpecs(digests_max=3)
    for number in range(4):
        specs.add(b"%d" % number)
    assert [b"%d" % number in specs for number in range(4)] == [False, False, False, True]


def test_templates_and_pods_have_their_own_memo() -> None:
    """What is valid in a template is checked again in a pod: one opens the host's port, the other may."""
    hosts = spec("data", hostNetwork=True)
    hosts["containers"][0]["ports"] = [{"containerPort": 80, "protocol": "TCP"}]
    assert RULES.validate("spec", hosts, None, None) == []
    assert [error.field for error in RULES.validate("spec", hosts, POD, None)] == [
        "spec.containers[0].ports[0].hostPort"
    ]


def test_errors_are_returned_each_time() -> None:
    wrong = spec("data", dnsPolicy="Mine")
    first = RULES.validate("spec", wrong, None, None)
    again = RULES.validate("spec.template.spec", wrong, None, None)
    assert [error.field for error in first] == ["spec.dnsPolicy"]
    assert [error.field for error in again] == ["spec.template.spec.dnsPolicy"]


VALUES: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [None, "", "a", "A!", "kube-api-access-x2x4z", "kube-api-access-abcde", 0, -1, 80, True, [], {}]
)


@st.composite
def _changed(draw: st.DrawFn) -> Document:
    """A valid spec with some of its strings replaced, wherever they are."""
    changed = copy.deepcopy(draw(st.sampled_from([spec(), spec("kube-api-access-abcde"), spec("data")])))
    container, volume = changed["containers"][0], changed["volumes"][0]
    places = [
        (container, "name"),
        (container, "image"),
        (container["volumeMounts"][0], "name"),
        (container["volumeMounts"][0], "mountPath"),
        (volume, "name"),
        (changed, "restartPolicy"),
        (changed, "hostname"),
    ]
    for where, field in draw(st.lists(st.sampled_from(places), max_size=3)):
        value = draw(VALUES)
        if isinstance(value, str):
            where[field] = value
    return changed


@given(st.lists(_changed(), min_size=1, max_size=6), st.booleans())
def test_the_answer_does_not_depend_on_what_came_before(specs: list[Document], is_pod: bool) -> None:
    for each in specs:
        written = orjson.dumps(each)
        identity = POD if is_pod else None
        errors = RULES.validate("spec", each, identity, None)
        alone = validation.spec_errors("spec", each, identity, RULES.options)
        assert errors == alone
        assert orjson.dumps(each) == written, "looking changes nothing"
