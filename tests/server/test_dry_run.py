"""A dry run answers what the write would answer, and leaves nothing behind. Rows J07, J08, L08 and L10.

What is left behind is seen at the revision of the store, which every write of any key raises: of objects,
allocated addresses, used quota, claims of other objects.
https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final, TypeVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from tests.support.api import STRATEGIC_PATCH, Answer, Api
from tests.support.api_services import API_SERVICES
from tests.support.definitions import DEFINITIONS, condition, define, definition, new_group, version
from tests.support.eventually import until
from tests.support.fixtures import server_with
from tests.support.objects import CONTAINERS, deployment

T = TypeVar("T")

NAMESPACES: Final = "/api/v1/namespaces"
CSRS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
# The finalizer with which the server waits until the objects of a definition are gone.
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"


# Nothing is written but what requests have the server write.
server = server_with("--controllers=-*", "--enable-admission-plugins=NamespaceAutoProvision")


def named(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


def finalized(name: str = "a") -> dict[str, Any]:
    return {"metadata": {"name": name, "finalizers": ["example.com/f"]}}


def pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    return named(name, spec={"containers": CONTAINERS, "nodeName": "n", **spec})


def service(name: str = "a", **spec: Any) -> dict[str, Any]:
    return named(name, spec={"ports": [{"port": 80}], **spec})


class Scene:
    """A namespace of its own, and what is written in it."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.core = f"{NAMESPACES}/{namespace}"
        self.group = new_group()

    def path(self, resource: str, group: str = "") -> str:
        prefix = f"/apis/{group}/namespaces/{self.namespace}" if group else self.core
        return f"{prefix}/{resource}"

    def there(self, resource: str, body: Any, group: str = "") -> str:
        """Create an object. Returns its path."""
        self.api.post(self.path(resource, group), body).ok()
        return f"{self.path(resource, group)}/{body['metadata']['name']}"

    def going(self, resource: str = "configmaps") -> str:
        """Create an object that is being deleted, and waits for its finalizer."""
        path = self.there(resource, finalized())
        self.api.delete(path).ok()
        return path

    def running(self) -> str:
        """Create a ready pod that counts for a budget, which allows one disruption."""
        path = self.there("pods", {**pod(), "metadata": {"name": "a", "labels": {"a": "b"}}})
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.api.patch(f"{path}/status", {"status": ready}).ok()
        selector = {"matchLabels": {"a": "b"}}
        budget = self.there(
            "poddisruptionbudgets", named("b", spec={"minAvailable": 0, "selector": selector}), "policy/v1"
        )
        counted = {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1}
        self.api.patch(f"{budget}/status", {"status": {**counted, "observedGeneration": 1}}).ok()
        return path

    def limited(self) -> None:
        """Create a quota for one more Service with a node port, and one more ConfigMap."""
        hard = {"services.nodeports": "1", "configmaps": "1"}
        quota = self.there("resourcequotas", named("q", spec={"hard": hard}))
        self.api.patch(f"{quota}/status", {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}).ok()
        self.api.get(quota).ok()

    def defined(self, **spec: Any) -> str:
        """Define a custom resource. Returns the path of its definition."""
        whole = version(subresources={"status": {}, "scale": SCALE}, schema=SCALED)
        define(self.api, definition(self.group, whole, **spec))
        return f"{DEFINITIONS}/widgets.{self.group}"

    def widget(self) -> str:
        self.defined()
        return self.there("widgets", self.a_widget(), f"{self.group}/v1")

    def a_widget(self, **spec: Any) -> dict[str, Any]:
        identity = {"apiVersion": f"{self.group}/v1", "kind": "Widget"}
        return {**identity, **named("w", spec={"replicas": 1, **spec})}


SCALE: Final = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
SCALED: Final = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    },
}
# Takes the query; returns the answer.
Write = Callable[[str], Answer]


def posted(resource: str, body: Any, group: str = "") -> Callable[[Scene], Write]:
    return lambda scene: lambda query: scene.api.post(f"{scene.path(resource, group)}{query}", body)


def posted_to_cluster(path: str, body: Any) -> Callable[[Scene], Write]:
    return lambda scene: lambda query: scene.api.post(f"{path}{query}", body(scene))


def applied(resource: str, body: Any, group: str = "v1", kind: str = "ConfigMap") -> Callable[[Scene], Write]:
    def prepare(scene: Scene) -> Write:
        path = f"{scene.path(resource, '' if group == 'v1' else group)}/{body['metadata']['name']}"
        whole = {"apiVersion": group, "kind": kind, **body}

        def write(query: str) -> Answer:
            joined = f"{query}&fieldManager=m" if query else "?fieldManager=m"
            return scene.api.apply(f"{path}{joined}", whole)

        return write

    return prepare


def signing_request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return base64.b64encode(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)).decode()


def a_csr(scene: Scene) -> dict[str, Any]:
    spec = {"request": signing_request(), "signerName": "example.com/s", "usages": ["digital signature"]}
    return named(scene.namespace, spec=spec)


def approved(scene: Scene) -> Write:
    made = scene.api.post(CSRS, a_csr(scene)).ok()
    approval = {"type": "Approved", "status": "True", "reason": "x", "message": "y"}
    made["status"] = {"conditions": [approval]}
    return lambda query: scene.api.put(f"{CSRS}/{scene.namespace}/approval{query}", made)


def changed(resource: str, before: Any, change: Any, group: str = "") -> Callable[[Scene], Write]:
    """An object that is there, and a merge patch of it."""

    def prepare(scene: Scene) -> Write:
        path = scene.there(resource, before, group)
        return lambda query: scene.api.patch(f"{path}{query}", change)

    return prepare


def replaced(scene: Scene) -> Write:
    path = scene.there("configmaps", named())
    return lambda query: scene.api.put(f"{path}{query}", named(data={"k": "v"}))


def subresource(
    resource: str, before: Any, name: str, change: Any, group: str = ""
) -> Callable[[Scene], Write]:
    def prepare(scene: Scene) -> Write:
        path = scene.there(resource, before, group)
        return lambda query: scene.api.patch(f"{path}/{name}{query}", change, STRATEGIC_PATCH)

    return prepare


def released(scene: Scene) -> Write:
    """The last finalizer of what is being deleted goes, and with it the object."""
    path = scene.going()
    return lambda query: scene.api.patch(f"{path}{query}", {"metadata": {"finalizers": None}})


def finished_namespace(scene: Scene) -> Write:
    path = f"{NAMESPACES}/{scene.namespace}-x"
    scene.api.post(NAMESPACES, named(f"{scene.namespace}-x")).ok()
    going = scene.api.delete(path).ok()
    going["spec"]["finalizers"] = []
    return lambda query: scene.api.put(f"{path}/finalize{query}", going)


def evicted(scene: Scene) -> Write:
    path = scene.running()
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    return lambda query: scene.api.post(f"{path}/eviction{query}", eviction)


def bound(scene: Scene) -> Write:
    path = scene.there("pods", named(spec={"containers": CONTAINERS}))
    return lambda query: scene.api.post(f"{path}/binding{query}", named(target={"kind": "Node", "name": "n"}))


def limited(resource: str, body: Any) -> Callable[[Scene], Write]:
    def prepare(scene: Scene) -> Write:
        scene.limited()
        return lambda query: scene.api.post(f"{scene.path(resource)}{query}", body)

    return prepare


def deleted(resource: str, body: Any, group: str = "", **options: str) -> Callable[[Scene], Write]:
    def prepare(scene: Scene) -> Write:
        path = scene.there(resource, body, group)
        more = "&".join(f"{name}={value}" for name, value in options.items())
        return lambda query: scene.api.delete(
            f"{path}{query}{('&' if query else '?') + more if more else ''}"
        )

    return prepare


def deleted_namespace(scene: Scene) -> Write:
    scene.there("configmaps", named())
    return lambda query: scene.api.delete(f"{scene.core}{query}")


def deleted_definition(scene: Scene) -> Write:
    scene.widget()
    return lambda query: scene.api.delete(f"{DEFINITIONS}/widgets.{scene.group}{query}")


def deleted_collection(scene: Scene) -> Write:
    for body in (named("a"), finalized("b"), named("c")):
        scene.there("configmaps", body)
    return lambda query: scene.api.delete(f"{scene.path('configmaps')}{query}")


def deleted_owner(policy: str) -> Callable[[Scene], Write]:
    def prepare(scene: Scene) -> Write:
        owner = scene.api.post(scene.path("configmaps"), named("owner")).ok()["metadata"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
        scene.there("configmaps", {"metadata": {"name": "owned", "ownerReferences": [reference]}})
        path = f"{scene.path('configmaps')}/owner"
        return lambda query: scene.api.delete(
            f"{path}{query}{'&' if query else '?'}propagationPolicy={policy}"
        )

    return prepare


def on_widget(write: Callable[[Scene, str, str], Answer]) -> Callable[[Scene], Write]:
    def prepare(scene: Scene) -> Write:
        path = scene.widget()
        return lambda query: write(scene, path, query)

    return prepare


def new_widget(scene: Scene) -> Write:
    scene.defined()
    path = scene.path("widgets", f"{scene.group}/v1")
    return lambda query: scene.api.post(f"{path}{query}", scene.a_widget())


def changed_definition(scene: Scene) -> Write:
    path = scene.defined()
    return lambda query: scene.api.patch(f"{path}{query}", {"spec": {"names": {"shortNames": ["wd"]}}})


def an_event(scene: Scene) -> Write:
    involved = {"kind": "Pod", "name": "p", "namespace": scene.namespace}
    body = {"metadata": {"name": "e"}, "involvedObject": involved}
    return lambda query: scene.api.post(f"{scene.path('events')}{query}", body)


def in_a_new_namespace(scene: Scene) -> Write:
    """A write for real creates the namespace; a dry run finds that there is none."""
    path = f"{NAMESPACES}/{scene.namespace}-new/configmaps"
    return lambda query: scene.api.post(f"{path}{query}", named())


EXTERNAL: Final = {
    "type": "ExternalName",
    "externalName": "a.example.com",
    "clusterIP": None,
    "clusterIPs": None,
}


def own_address(number: int) -> dict[str, Any]:
    """A Service that names its address and its port, one of those that others get last."""
    port = {"port": 80, "nodePort": 30_010 + number}
    return service(type="NodePort", ports=[port], clusterIP=f"10.0.7.{number}")


WRITES: Final[dict[str, Callable[[Scene], Write]]] = {
    # POST
    "create: a ConfigMap": posted("configmaps", named(data={"a": "b"})),
    "create: with a generated name": posted("configmaps", {"metadata": {"generateName": "a-"}}),
    "create: a Service, which gets an address": posted("services", service()),
    "create: a Service, which gets a node port": posted("services", service(type="NodePort")),
    "create: a Service that names its address and port": posted("services", own_address(1)),
    "create: a Pod, whose account and priority are set": posted("pods", pod()),
    "create: an Event, which expires": an_event,
    "create: what a quota counts": limited("configmaps", named()),
    "create: what quota and allocators count": limited("services", service(type="NodePort")),
    "create: a namespace": posted_to_cluster(NAMESPACES, lambda scene: named(f"{scene.namespace}-x")),
    "create: a definition": posted_to_cluster(DEFINITIONS, lambda scene: definition(scene.group)),
    "create: a CertificateSigningRequest": posted_to_cluster(CSRS, a_csr),
    "create: a ServiceCIDR": posted_to_cluster(
        "/apis/networking.k8s.io/v1/servicecidrs",
        lambda scene: named(scene.namespace, spec={"cidrs": ["10.99.0.0/24"]}),
    ),
    "create: a custom resource": new_widget,
    "create: a Binding": bound,
    "create: an Eviction, which a budget counts": evicted,
    # PUT and PATCH
    "update: a ConfigMap": replaced,
    "update: the approval of a request": approved,
    "update: the end of a namespace": finished_namespace,
    "patch: a Service gives its address back": changed("services", service(), {"spec": EXTERNAL}),
    "patch: a Service gets a node port": changed("services", service(), {"spec": {"type": "NodePort"}}),
    "patch: the last finalizer goes": released,
    "patch: the status of a Pod": subresource("pods", pod(), "status", {"status": {"phase": "Running"}}),
    "patch: the scale of a Deployment": subresource(
        "deployments", deployment("a", replicas=1), "scale", {"spec": {"replicas": 3}}, "apps/v1"
    ),
    "patch: the debuggers of a Pod": subresource(
        "pods", pod(), "ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}}
    ),
    "patch: the size of a Pod": subresource(
        "pods",
        pod(nodeName="", containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]),
        "resize",
        {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}},
    ),
    "patch: a custom resource": on_widget(
        lambda scene, path, query: scene.api.patch(f"{path}{query}", {"spec": {"replicas": 2}})
    ),
    "patch: the status of a custom resource": on_widget(
        lambda scene, path, query: scene.api.patch(f"{path}/status{query}", {"status": {"replicas": 2}})
    ),
    "patch: the scale of a custom resource": on_widget(
        lambda scene, path, query: scene.api.patch(f"{path}/scale{query}", {"spec": {"replicas": 2}})
    ),
    "patch: a definition": changed_definition,
    "apply: a new ConfigMap": applied("configmaps", named(data={"a": "b"})),
    "apply: a new Service": applied("services", service(type="NodePort"), kind="Service"),
    # DELETE
    "delete: a ConfigMap": deleted("configmaps", named()),
    "delete: what a finalizer holds": deleted("configmaps", finalized()),
    "delete: a Service, which gives back what it has": deleted("services", own_address(2)),
    "delete: a Pod, after its grace period": deleted("pods", pod()),
    "delete: a Pod, at once": deleted("pods", pod(), gracePeriodSeconds="0"),
    "delete: a namespace": deleted_namespace,
    "delete: a definition with objects": deleted_definition,
    "delete: a collection": deleted_collection,
    **{
        f"delete: an owner, {policy}": deleted_owner(policy)
        for policy in ("Background", "Foreground", "Orphan")
    },
}


def revision(api: Api) -> str:
    """That of the store, whatever was written."""
    return str(api.get(f"{NAMESPACES}?limit=1").ok()["metadata"]["resourceVersion"])


def is_settled(api: Api) -> bool:
    """Whether the server has written what definitions entail: conditions and APIServices, or their end."""
    definitions = api.get(DEFINITIONS).ok()["items"]
    if any(each["metadata"].get("finalizers") == [CLEANUP] for each in definitions if is_going(each)):
        return False
    wanted = {
        f"{version['name']}.{each['spec']['group']}"
        for each in definitions
        if condition(each, "Established")
        for version in each["spec"]["versions"]
        if version["served"]
    }
    services = api.get(f"{API_SERVICES}?labelSelector=kube-aggregator.kubernetes.io/automanaged=true").ok()
    named = {each["metadata"]["name"] for each in services["items"]}
    return named == wanted and all(condition(each, "Established") for each in definitions)


def is_going(document: dict[str, Any]) -> bool:
    return "deletionTimestamp" in document["metadata"]


TRIES: Final = 5


def writing_nothing(api: Api, ask: Callable[[], T]) -> T:
    """Returns what `ask` returns, which must not change the store.

    The server itself may, while what earlier requests entail is not done. But it does so less and less, and
    what a dry run writes it writes each time.
    """
    for _ in range(TRIES):
        until(lambda: is_settled(api), what="definitions have what they entail")
        before = revision(api)
        answer = ask()
        if revision(api) == before:
            return answer
    pytest.fail(f"each time something is written: {answer}")


@pytest.mark.parametrize("prepare", WRITES.values(), ids=WRITES)
def test_nothing_is_left_behind(api: Api, namespace: str, prepare: Callable[[Scene], Write]) -> None:
    """Then the write is done for real, and finds everything as it was."""
    write = prepare(Scene(api, namespace))
    dry = writing_nothing(api, lambda: [write(query) for query in ("?dryRun=All", "?dryRun", "?dryRun=All")])
    before = revision(api)
    done = write("")
    assert done.status < 300, done.body
    assert [each.status for each in dry] == [done.status] * len(dry), dry[0].body
    assert revision(api) != before


def test_no_namespace_is_provided(api: Api, namespace: str) -> None:
    write = in_a_new_namespace(Scene(api, namespace))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", **named(deleteOptions={"dryRun": ["All"]})}
    nowhere = f"{NAMESPACES}/{namespace}-new/pods/a"
    dry = writing_nothing(
        api,
        lambda: [
            write("?dryRun=All"),
            api.post(f"{nowhere}/eviction", eviction),
            api.post(f"{nowhere}/binding?dryRun=All", named(target={"name": "n"})),
        ],
    )
    assert [each.status for each in dry] == [404] * 3
    write("").ok()


def test_a_quota_refuses_a_dry_run_that_exceeds_it(api: Api, namespace: str) -> None:
    scene = Scene(api, namespace)
    scene.limited()
    scene.there("configmaps", named("first"))
    refused = writing_nothing(
        api, lambda: api.post(f"{scene.path('configmaps')}?dryRun=All", named("second"))
    )
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert "exceeded quota: q" in refused.message


DELETE_BODIES: Final = {
    "DeleteOptions": {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]},
    "of the group of the type": {"kind": "DeleteOptions", "apiVersion": "apps/v1", "dryRun": ["All"]},
}


@pytest.mark.parametrize("body", DELETE_BODIES.values(), ids=DELETE_BODIES)
def test_deletions_say_it_in_the_body(api: Api, namespace: str, body: Any) -> None:
    scene = Scene(api, namespace)
    path = scene.there("deployments", deployment("a", replicas=1), "apps/v1")
    collection = scene.path("deployments", "apps/v1")
    writing_nothing(api, lambda: (api.delete(path, body).ok(), api.delete(collection, body).ok()))


OTHER_BODIES: Final = {
    "an empty one": ({}, True),
    "no values": ({"dryRun": []}, True),
    "null": ({"dryRun": None}, True),
    "another option": ({"propagationPolicy": "Background"}, True),
    "a dry run, too": ({"dryRun": ["All"]}, False),
}


@pytest.mark.parametrize(("body", "is_deleted"), OTHER_BODIES.values(), ids=OTHER_BODIES)
def test_a_body_is_all_that_counts_of_the_options_of_a_deletion(
    api: Api, namespace: str, body: dict[str, Any], is_deleted: bool
) -> None:
    """Row G10, as in Kubernetes."""
    collection = f"{NAMESPACES}/{namespace}/configmaps"
    path = f"{collection}/{named()['metadata']['name']}"
    for deleted in (path, collection):
        api.post(collection, named())
        assert api.delete(f"{deleted}?dryRun=All", body).status == 200
        assert api.get(path).status == (404 if is_deleted else 200)


def test_who_may_not_write_may_not_try(api: Api, namespace: str) -> None:
    maps, nobody = f"{NAMESPACES}/{namespace}/configmaps", {"Impersonate-User": "nobody"}
    for query in ("?dryRun=All", "?dryRun"):
        refused = api.post(f"{maps}{query}", named(), headers=nobody)
        assert (refused.status, refused.reason) == (403, "Forbidden")
