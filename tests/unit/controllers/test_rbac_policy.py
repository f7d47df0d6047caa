"""What the RBAC authorizer is told of what is stored, whatever is stored. Rows O03-O05."""

from __future__ import annotations

import asyncio
from functools import reduce
from operator import or_
from typing import Any, Final

import orjson
import pytest

from apiserver.auth.authz.attributes import Attributes, Decision
from apiserver.auth.authz.rbac.policy import RbacPolicy
from apiserver.controllers.rbac_policy import RbacPolicyInformer
from apiserver.load.size_class import LARGE_BYTES
from apiserver.meta.vocabulary import Document, UserInfo
from apiserver.storage.embedded import EmbeddedStore
from tests.support.authorizers import RbacAtOnce
from tests.support.eventually import WITHIN_S, eventually
from tests.support.in_process import PREFIX, TABLE, running, server

GROUP: Final = "rbac.authorization.k8s.io"
RULE: Final = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
TO: Final[Document] = {"roleRef": {"kind": "ClusterRole", "name": "reader"}}
ALICE: Final[Document] = {"subjects": [{"kind": "User", "name": "alice"}]}


def may(authorize: RbacAtOnce, user: str, namespace: str = "ns") -> bool:
    asked = Attributes(UserInfo(user), "get", True, "", resource="pods", namespace=namespace, name="a")
    return authorize(asked).decision is Decision.ALLOW


def named(name: str, *fields: Document, namespace: str = "", **more: Any) -> Document:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return reduce(or_, fields, {"metadata": metadata} | more)


async def put(store: EmbeddedStore, place: str, document: object) -> int:
    """The revision."""
    value = document if isinstance(document, bytes) else orjson.dumps(document)
    return await store.create(f"{PREFIX}/{GROUP}/{place}", value)


# Whoever writes to the store directly can write anything; all of it would give alice something.
JUNK: Final[dict[str, tuple[str, object]]] = {
    "no JSON": ("clusterrolebindings/x", b"k8s\x00"),
    "a list": ("clusterrolebindings/x", [named("x", TO, ALICE)]),
    "no name": ("clusterrolebindings/x", {"metadata": {"labels": {}}, **TO, **ALICE}),
    "another name": ("clusterrolebindings/x", named("y", TO, ALICE)),
    "no role": ("clusterrolebindings/x", named("x", ALICE)),
    "a role without a name": ("clusterrolebindings/x", named("x", ALICE, roleRef={"kind": "ClusterRole"})),
    "a role with a number as name": (
        "clusterrolebindings/x",
        named("x", ALICE, roleRef={"kind": "ClusterRole", "name": 7}),
    ),
    "a subject without a name": (
        "clusterrolebindings/x",
        named("x", TO, subjects=[*ALICE["subjects"], {"kind": "User"}]),
    ),
    "a subject that is none": ("clusterrolebindings/x", named("x", TO, subjects=[None])),
    "a namespace's, that does not say so": ("rolebindings/ns/x", named("x", TO, ALICE)),
    "a namespace's, in another": ("rolebindings/other/x", named("x", TO, ALICE, namespace="ns")),
    "the cluster's, with a namespace": ("clusterrolebindings/x", named("x", TO, ALICE, namespace="ns")),
    "no rules": ("clusterroles/x", named("x", rules="none")),
    "no rule": ("clusterroles/x", named("x", rules=[None])),
    "verbs that are no list": ("clusterroles/x", named("x", rules=[{**RULE, "verbs": "*"}])),
    "verbs that are no words": ("clusterroles/x", named("x", rules=[{**RULE, "verbs": [{}]}])),
}


@pytest.mark.parametrize(("place", "document"), JUNK.values(), ids=JUNK)
async def test_what_is_no_role_or_binding_gives_nobody_anything_and_stops_nothing(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture, place: str, document: object
) -> None:
    policy = RbacPolicy(GROUP)
    authorize = RbacAtOnce(policy)
    await put(store, "clusterroles/reader", named("reader", rules=[RULE]))
    await put(
        store, "clusterrolebindings/of-x", named("of-x", ALICE, roleRef={"kind": "ClusterRole", "name": "x"})
    )
    await put(store, place, document)  # there when it begins
    async with server(store) as registry:
        informer = RbacPolicyInformer(registry, TABLE, GROUP, policy)
        running = asyncio.create_task(informer.run())
        await asyncio.wait_for(informer.wait_until_complete(), WITHIN_S)
        await put(store, place + "-later", document)
        # Of the same kind, so that it comes later.
        kind, _, rest = place.partition("/")
        namespace = "ns" if "/" in rest else ""
        bob = named("z", TO, namespace=namespace, subjects=[{"kind": "User", "name": "bob"}])
        if kind == "clusterroles":
            await put(
                store, "clusterrolebindings/z", {**bob, "roleRef": {"kind": "ClusterRole", "name": "z"}}
            )
            await put(store, "clusterroles/z", named("z", rules=[RULE]))
        else:
            await put(store, f"{kind}/ns/z" if namespace else f"{kind}/z", bob)
        await eventually(lambda: may(authorize, "bob"))
        assert not any(may(authorize, "alice", where) for where in ("", "ns", "other"))
        assert f"stored at {rest} grants nothing" in caplog.text
        assert f"stored at {rest}-later grants nothing" in caplog.text
        assert not running.done()
        running.cancel()
        await asyncio.wait([running])


# So long that it is not decoded when it is read from the store.
PADDING: Final = "x" * LARGE_BYTES

BECOMES: Final[dict[str, object]] = {
    "no JSON": b"k8s\x00",
    "encrypted with a key that is lost": b"k8s:enc:aesgcm:v1:key1:" + bytes(40),
    "no object": [],
    "no metadata": {"rules": [RULE], **TO, **ALICE},
    "metadata without a name": {"metadata": {}, "rules": [RULE], **TO, **ALICE},
    "metadata that are none": {"metadata": None, "rules": [RULE], **TO, **ALICE},
    "a key that ends as metadata do": {'"metadata': {"name": "x"}, "rules": [RULE], **TO, **ALICE},
    "a long list": [named("x", TO, ALICE, rules=[RULE], padding=PADDING)],
    "metadata twice": orjson.dumps(named("x", TO, ALICE, rules=[RULE], padding=PADDING))[:-1]
    + b',"metadata":null}',
    "another name": named("y", TO, ALICE, rules=[RULE]),
    "no rule, and no role": named("x", ALICE, rules=[RULE, None]),
}
PLACES: Final[dict[str, tuple[str, Document]]] = {
    "clusterroles/x": ("", {}),
    "roles/ns/x": ("ns", {}),
    "clusterrolebindings/x": ("", TO),
    "rolebindings/ns/x": ("ns", TO),
}


@pytest.mark.parametrize("damaged", BECOMES.values(), ids=BECOMES)
@pytest.mark.parametrize("place", PLACES)
async def test_what_becomes_unreadable_gives_nothing_any_more(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture, place: str, damaged: object
) -> None:
    policy = RbacPolicy(GROUP)
    authorize = RbacAtOnce(policy)
    namespace, role = PLACES[place]
    plural = place.partition("/")[0]
    sound = named("x", role or {"rules": [RULE]}, ALICE, namespace=namespace)
    revision = await put(store, place, sound)
    await put(store, "clusterroles/reader", named("reader", rules=[RULE]))
    of_x = {"kind": "Role" if plural == "roles" else "ClusterRole", "name": "x"}
    if not role:
        await put(store, "rolebindings/ns/of-x", named("of-x", ALICE, roleRef=of_x, namespace="ns"))
    async with server(store) as registry, running(RbacPolicyInformer(registry, TABLE, GROUP, policy).run()):
        await eventually(lambda: may(authorize, "alice"))
        value = damaged if isinstance(damaged, bytes) else orjson.dumps(damaged)
        await store.compare_and_put(f"{PREFIX}/{GROUP}/{place}", value, expected=revision)
        await eventually(lambda: not may(authorize, "alice"))
        assert f"stored at {place.partition('/')[2]} grants nothing" in caplog.text
