"""Metrics, under the names and labels that Kubernetes' dashboards use. Rows N10, H08.

Sources of names and labels: k8s.io/apiserver, pkg/endpoints/metrics, pkg/storage/etcd3/metrics and
pkg/storage/cacher/metrics, and k8s.io/component-base, metrics/prometheus/workqueue, at the release that is
emulated (1.34).
"""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.api import APPLY, MERGE_PATCH, Api
from tests.support.definitions import define, definition, new_group, version
from tests.support.eventually import eventually, until
from tests.support.fixtures import server_with
from tests.support.metrics import increase, metric, metrics_of
from tests.support.objects import pod
from tests.support.rbac import grant, rule
from tests.support.server_process import ServerProcess

INITIAL: Final = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
# Both histograms', in Kubernetes. Seconds.
BUCKETS: Final = {
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
}


class Scrape:
    """The samples of one scrape."""

    def __init__(self, api: Api) -> None:
        self.text = metrics_of(api)
        self.families = {family.name: family for family in text_string_to_metric_families(self.text)}
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def value(self, name: str, /, **labels: str) -> float:
        """The sum of all samples of a name that have these labels."""
        return sum(s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items())


# One that others use has many more series, which take long to read.
server = server_with()


@pytest.fixture
def configmaps(api: Api, namespace: str) -> str:
    """The path of a collection with one object, `a`, that has been watched."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.post(path, {"metadata": {"name": "a"}}).ok()
    with api.watch(f"{path}?watch=1&{INITIAL}") as events:
        assert events.take(2) == [("ADDED", "a"), ("BOOKMARK", "")]
    return path


# ---- names


# Those of prometheus-client of Go, where Kubernetes names none.
GO_BUCKETS: Final = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
HISTOGRAMS: Final[dict[str, set[float]]] = {
    "apiserver_request_duration_seconds": BUCKETS,
    "etcd_request_duration_seconds": BUCKETS,
    "apiserver_response_sizes": {10.0**power for power in range(3, 10)},
    "apiserver_admission_controller_admission_duration_seconds": {0.005, 0.025, 0.1, 0.5, 1, 2.5},
    "apiserver_admission_step_admission_duration_seconds": {0.005, 0.025, 0.1, 0.5, 1, 2.5},
    "apiserver_watch_list_duration_seconds": BUCKETS - {0.005, 0.025, 1.25, 1.5, 3, 5},
    "apiserver_watch_events_sizes": {1024.0 * 2**power for power in range(8)},
    "apiserver_cel_compilation_duration_seconds": GO_BUCKETS,
    "apiserver_cel_evaluation_duration_seconds": GO_BUCKETS,
    "apiserver_request_filter_duration_seconds": {
        *(0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0)
    },
    "etcd_lease_object_counts": {10, 50, 100, 500, 1000, 2500, 5000},
}


@pytest.mark.parametrize(("name", "bounds"), HISTOGRAMS.items(), ids=HISTOGRAMS)
def test_histograms(api: Api, configmaps: str, name: str, bounds: set[float]) -> None:
    """Buckets as in Kubernetes, each holding those before it, the last one all."""
    api.get(configmaps).ok()  # so that there is an answer with a size
    series: dict[frozenset[tuple[str, str]], dict[float, float]] = {}
    scrape = Scrape(api)
    for sample in scrape.samples:
        if sample.name == f"{name}_bucket":
            labels = dict(sample.labels)
            bound = float(labels.pop("le"))
            series.setdefault(frozenset(labels.items()), {})[bound] = sample.value
    assert series
    for labels_, counts in series.items():
        assert set(counts) == bounds | {math.inf}
        ordered = [counts[bound] for bound in sorted(counts)]
        assert ordered == sorted(ordered)
        assert ordered[-1] == scrape.value(f"{name}_count", **dict(labels_))
        assert scrape.value(f"{name}_sum", **dict(labels_)) >= 0


@pytest.mark.parametrize("name", ["apiserver_request_duration_seconds", "etcd_request_duration_seconds"])
def test_what_was_counted_took_time(api: Api, configmaps: str, name: str) -> None:
    scrape = Scrape(api)
    assert scrape.value(f"{name}_sum", resource="configmaps") > 0


def test_h08_the_time_of_validation_is_part_of_a_requests(api: Api, configmaps: str) -> None:
    """Of one that validation refuses, too: how many milliseconds it takes is told as for any other."""
    large = {"metadata": {"name": "b", "labels": {f"k{n}": "not a value!" for n in range(2000)}}}
    name = "apiserver_request_duration_seconds"
    about = {"verb": "POST", "group": "", "version": "v1", "resource": "configmaps", "scope": "resource"}
    before = Scrape(api)
    assert api.post(configmaps, large).status == 422
    after = Scrape(api)
    assert after.value(f"{name}_count", **about) - before.value(f"{name}_count", **about) == 1
    # Faster than a tenth of that no server checks 2,000 values.
    assert after.value(f"{name}_sum", **about) - before.value(f"{name}_sum", **about) > 0.0005


def test_what_controllers_do_is_counted(api: Api) -> None:
    """The queues of definitions are there whatever controllers run."""
    name = "crd_naming_condition_controller"
    definition = {
        "metadata": {"name": "counted.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "counted", "kind": "Counted"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    before = metric(api, "workqueue_adds_total", name=name)
    api.post(path, definition).ok()
    # The controller is told of it as others are.
    added = partial(metric, api, "workqueue_adds_total", name=name)
    until(added, lambda found: found > before, "it is in the queue")
    for count in ("workqueue_queue_duration_seconds_count", "workqueue_work_duration_seconds_count"):
        until(partial(metric, api, count, name=name), what=count)  # once the work is done


def test_the_format(api: Api) -> None:
    """Prometheus' text, once for each name."""
    answer = api.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    helps = [line.split()[2] for line in answer.body.decode().splitlines() if line.startswith("# HELP")]
    assert len(set(helps)) == len(helps)


# ---- who asks

# The token, and under which result and user its request is counted.
CALLERS: Final = {
    "one of the names that are counted": ("admin-token", "success", "admin"),
    "another name": ("alice-token", "success", "other"),
    "no credentials where some are needed": ("", "failure", None),
    "credentials that are not valid": ("nonsense", "error", None),
}


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("strict"), "--anonymous-auth=false") as server:
        yield server


@pytest.mark.parametrize(("token", "result", "user"), CALLERS.values(), ids=CALLERS)
def test_callers_are_counted(strict_server: ServerProcess, token: str, result: str, user: str | None) -> None:
    with Api(strict_server) as admin, Api(strict_server, token) as caller:
        before = Scrape(admin)
        caller.get("/version")
        after = Scrape(admin)
    # The administrator has asked for the second scrape, and is counted in it.
    wanted = Counter({("success", "admin"): 1}) + Counter([(result, user)])
    # The parser adds the suffix to counters that have none.
    for name in ("authentication_attempts_total", "authentication_duration_seconds_count"):
        for each in ("success", "failure", "error"):
            count = sum(number for (found, _), number in wanted.items() if found == each)
            assert after.value(name, result=each) - before.value(name, result=each) == count
    for each in ("admin", "other", "email_id"):
        name = "authenticated_user_requests_total"
        found = after.value(name, username=each) - before.value(name, username=each)
        assert found == wanted["success", each]


# ---- requests

CM: Final = {
    "group": "",
    "version": "v1",
    "resource": "configmaps",
    "subresource": "",
    "component": "apiserver",
}
NEW: Final = {"metadata": {"name": "b"}}
APPLIED: Final = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
REQUESTS: Final[dict[str, tuple[str, str, Any, Mapping[str, str]]]] = {
    "get": ("GET", "/a", None, {"verb": "GET", "scope": "resource", "code": "200"}),
    "get of what is not there": ("GET", "/z", None, {"verb": "GET", "scope": "resource", "code": "404"}),
    "list": ("GET", "", None, {"verb": "LIST", "scope": "namespace", "code": "200"}),
    "create": ("POST", "", NEW, {"verb": "POST", "scope": "resource", "code": "201"}),
    "create of nonsense": ("POST", "", b"{", {"verb": "POST", "scope": "resource", "code": "400"}),
    "dry run": (
        "POST",
        "?dryRun=All",
        NEW,
        {"verb": "POST", "scope": "resource", "code": "201", "dry_run": "All"},
    ),
    "invalid dry run": (
        "POST",
        "?dryRun=Some",
        NEW,
        {"verb": "POST", "scope": "resource", "code": "422", "dry_run": "invalid"},
    ),
    "update": ("PUT", "/a", {"metadata": {"name": "a"}}, {"verb": "PUT", "scope": "resource", "code": "200"}),
    "patch": ("PATCH", "/a", {}, {"verb": "PATCH", "scope": "resource", "code": "200"}),
    "apply": ("PATCH", "/a?fieldManager=m", APPLIED, {"verb": "APPLY", "scope": "resource", "code": "200"}),
    "delete": ("DELETE", "/a", None, {"verb": "DELETE", "scope": "resource", "code": "200"}),
    "deletecollection": (
        "DELETE",
        "",
        None,
        {"verb": "DELETECOLLECTION", "scope": "namespace", "code": "200"},
    ),
}


@pytest.mark.parametrize(("method", "below", "body", "labels"), REQUESTS.values(), ids=REQUESTS)
def test_requests_are_counted(
    api: Api, configmaps: str, method: str, below: str, body: Any, labels: Mapping[str, str]
) -> None:
    """Each once, by what it was about and how it ended; and timed."""
    labels = {"dry_run": "", **CM, **labels}
    before = Scrape(api)
    patch = APPLY if body is APPLIED else MERGE_PATCH
    api.send(method, configmaps + below, body, type=patch if method == "PATCH" else "json")
    after = Scrape(api)
    for name in ("apiserver_request_total", "apiserver_request_duration_seconds_count"):
        wanted = {k: v for k, v in labels.items() if k != "code" or name.endswith("_total")}
        assert after.value(name, **wanted) - before.value(name, **wanted) == 1
        # Of watches that others have just left nobody knows when they end.
        all_others = [
            scrape.value(name, **CM) - scrape.value(name, **CM, verb="WATCH") for scrape in (before, after)
        ]
        assert all_others[1] - all_others[0] == 1


OTHER_REQUESTS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "over all namespaces": (
        "/api/v1/configmaps",
        {"verb": "LIST", "resource": "configmaps", "scope": "cluster"},
    ),
    "a named group": (
        "/apis/apps/v1/deployments",
        {"verb": "LIST", "group": "apps", "version": "v1", "resource": "deployments", "scope": "cluster"},
    ),
    "cluster-scoped": (
        "/api/v1/namespaces/default",
        {"verb": "GET", "resource": "namespaces", "scope": "resource"},
    ),
    "a subresource": (
        "/api/v1/namespaces/default/status",
        {"verb": "GET", "resource": "namespaces", "subresource": "status", "scope": "resource"},
    ),
}


@pytest.mark.parametrize(("path", "labels"), OTHER_REQUESTS.values(), ids=OTHER_REQUESTS)
def test_what_requests_are_about(api: Api, path: str, labels: dict[str, str]) -> None:
    assert increase(api, lambda: api.get(path).ok(), "apiserver_request_total", **labels, code="200") == 1


async def test_a_watch_is_counted_when_it_ends(api: Api, configmaps: str) -> None:
    """Row A02: as a watch, and not among the durations."""
    labels = {**CM, "verb": "WATCH"}
    await eventually(lambda: Scrape(api).value("apiserver_longrunning_requests") == 0)
    before = Scrape(api)
    open_ones = partial(metric, api, "apiserver_longrunning_requests", **labels, scope="namespace")
    with api.watch(f"{configmaps}?watch=1") as events:
        events.next()
        assert open_ones() == 1
    await eventually(
        lambda: (
            Scrape(api).value("apiserver_request_total", **labels)
            == before.value("apiserver_request_total", **labels) + 1
        )
    )
    lists = {**CM, "verb": "LIST"}
    assert Scrape(api).value("apiserver_request_total", **lists) == before.value(
        "apiserver_request_total", **lists
    )


def ask_for_what_is_not_there(api: Api, namespace: str, count: int) -> None:
    stranger = api.as_caller("")
    for n in range(count):
        for caller in (api, stranger):
            caller.get(f"/api/v1/namespaces/{namespace}/made-up-{n}")
            caller.get(f"/apis/made-up-{n}/v1/things")
            caller.get(f"/made-up-{n}")
            caller.get(f"/api/v1/namespaces/{namespace}/configmaps/made-up-{n}")
            caller.get(f"/api/v1/namespaces/{namespace}/configmaps/a/made-up-{n}")
            caller.get(f"/api/v1/configmaps?dryRun=made-up-{n}")
            caller.send("M" + "ADEUP"[n % 5 :], f"/api/v1/namespaces/{namespace}/configmaps")
        api.get("/api/v1/configmaps", headers={"Authorization": f"Bearer made-up-{n}"})
    stranger.close()


def test_unauthenticated_clients_cannot_make_up_series(api: Api, namespace: str) -> None:
    """What is not served adds a few series, however much of it is asked for."""

    def series() -> int:
        return sum(sample.name == "apiserver_request_total" for sample in Scrape(api).samples)

    series()  # The scrape itself is a series, from the second one on.
    ask_for_what_is_not_there(api, namespace, 5)
    before = series()
    ask_for_what_is_not_there(api, namespace, 20)
    assert series() == before


def test_no_series_is_told_twice(api: Api, namespace: str) -> None:
    """Prometheus takes no two samples of one name with the same labels."""
    ask_for_what_is_not_there(api, namespace, 2)
    series = Counter((sample.name, *sorted(sample.labels.items())) for sample in Scrape(api).samples)
    assert [each for each, count in series.items() if count > 1] == []


def of_resource(api: Api, plural: str, group: str) -> list[str]:
    """The lines that name a resource."""
    names = (f'resource="{plural}"', f'resource="{plural}.{group}"')
    return [line for line in Scrape(api).text.splitlines() if any(name in line for name in names)]


def test_series_of_a_custom_resource_go_with_its_definition(api: Api, namespace: str) -> None:
    """What is still answered then, as a watch that ends, is counted as that of any other resource."""
    group = new_group()
    defined = define(api, definition(group, plural="passing", kind="Passing"))
    path = defined.objects(namespace)
    defined.create("a", namespace).ok()
    for below in ("/a", "", "/z"):
        api.get(path + below)
    uncategorized = "cardinality_enforcement_unexpected_categorizations_total"
    assert len(of_resource(api, "passing", group)) > 50
    before = metric(api, uncategorized)
    with api.watch(f"{path}?watch=1") as events:
        events.next()
        api.delete(defined.path).ok()
        events.body()
    until(lambda: of_resource(api, "passing", group), lambda lines: not lines, "no series are left")
    # The watch is counted after its client has seen its end.
    watches = partial(metric, api, "apiserver_request_total", resource="other", verb="WATCH")
    until(watches, what="the watch is counted as another's")
    assert metric(api, uncategorized) > before


def test_a_scrape_is_compressed_when_asked_for(api: Api) -> None:
    answer = api.get("/metrics", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert b"apiserver_request_total" in gzip.decompress(answer.body)
    assert "content-encoding" not in api.get("/metrics").headers


def test_the_head_of_a_scrape(api: Api) -> None:
    answer = api.send("HEAD", "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


SIZES: Final[dict[str, tuple[str, dict[str, str], str]]] = {
    "an object": ("/a", {"verb": "GET", "scope": "resource"}, "identity"),
    "a list": ("", {"verb": "LIST", "scope": "namespace"}, "identity"),
    "an error": ("/z", {"verb": "GET", "scope": "resource"}, "identity"),
    "a long list, in chunks": ("?limit=9", {"verb": "LIST", "scope": "namespace"}, "identity"),
    "a long list, compressed": ("?limit=9", {"verb": "LIST", "scope": "namespace"}, "gzip"),
}


@pytest.mark.parametrize(("below", "labels", "encoding"), SIZES.values(), ids=SIZES)
def test_sizes_of_responses_to_reads_are_counted(
    api: Api, configmaps: str, below: str, labels: dict[str, str], encoding: str
) -> None:
    """The bytes of the body, as they are sent."""
    if "limit" in below:
        for name in ("b", "c", "d"):
            api.post(configmaps, {"metadata": {"name": name}, "data": {"k": "x" * 200_000}}).ok()
    before = Scrape(api)
    body = api.get(configmaps + below, headers={"Accept-Encoding": encoding}).body
    after = Scrape(api)
    labels = {**CM, **labels}
    assert after.value("apiserver_response_sizes_count", **labels) == 1 + before.value(
        "apiserver_response_sizes_count", **labels
    )
    counted = after.value("apiserver_response_sizes_sum", **labels)
    assert counted - before.value("apiserver_response_sizes_sum", **labels) == len(body)


def test_sizes_of_other_responses_are_not_counted(api: Api, configmaps: str) -> None:
    api.post(configmaps, NEW).ok()
    api.get(f"{configmaps}/a").ok()
    api.get(configmaps).ok()
    verbs = {s.labels["verb"] for s in Scrape(api).samples if s.name == "apiserver_response_sizes_count"}
    assert verbs == {"GET", "LIST"}


BODIES: Final[dict[str, tuple[str, str, str, int]]] = {
    "of a create": ("POST", "", "create", 1),
    "of a patch": ("PATCH", "/a", "patch", 1),
    "of a delete": ("DELETE", "/a", "delete", 1),
    "of all": ("DELETE", "", "delete_collection", 1),
    "none": ("GET", "/a", "get", 0),
}


@pytest.mark.parametrize(("method", "name", "verb", "count"), BODIES.values(), ids=BODIES)
def test_sizes_of_bodies_of_requests_are_counted(
    api: Api, configmaps: str, method: str, name: str, verb: str, count: int
) -> None:
    """k8s.io/apiserver, pkg/endpoints/handlers/metrics/metrics.go."""
    bodies = {"POST": {"metadata": {"name": "b"}}, "PATCH": {"data": {"a": "b"}}}
    body = None if method == "GET" else bodies.get(method, {"propagationPolicy": "Background"})
    media_type = MERGE_PATCH if method == "PATCH" else "json"
    labels = {"group": "", "resource": "configmaps", "verb": verb}
    before = Scrape(api)
    assert api.send(method, f"{configmaps}{name}", body, type=media_type).status < 300
    after = Scrape(api)
    metric = "apiserver_request_body_size_bytes"
    assert after.value(f"{metric}_count", **labels) - before.value(f"{metric}_count", **labels) == count
    size = after.value(f"{metric}_sum", **labels) - before.value(f"{metric}_sum", **labels)
    assert (size > 10) is (count > 0)


FIELD_VALIDATIONS: Final = {
    "none": ("", ""),
    "strict": ("?fieldValidation=Strict", "Strict"),
    "another word": ("?fieldValidation=Much", "invalid"),
    "two of them": ("?fieldValidation=Warn&fieldValidation=Warn", "invalid"),
}


@pytest.mark.parametrize(("query", "label"), FIELD_VALIDATIONS.values(), ids=FIELD_VALIDATIONS)
def test_writes_are_timed_by_their_field_validation(
    api: Api, configmaps: str, query: str, label: str
) -> None:
    name = "field_validation_request_duration_seconds_count"
    act = partial(api.patch, f"{configmaps}/a{query}", {"data": {"a": "b"}})
    assert increase(api, act, name, field_validation=label) == 1
    assert increase(api, partial(api.get, f"{configmaps}/a"), name) == 0


def test_lists_from_memory_are_counted(api: Api, namespace: str) -> None:
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    for name in "abc":
        api.post(secrets, {"metadata": {"name": name, "labels": {"a": name}}}).ok()
    before = Scrape(api)
    api.get(f"{secrets}?labelSelector=a=b").ok()
    after = Scrape(api)
    for name, count in (("", 1), ("fetched_objects_", 3), ("returned_objects_", 1)):
        metric = f"apiserver_cache_list_{name}total"
        found = after.value(metric, resource="secrets") - before.value(metric, resource="secrets")
        assert found == count, metric


LIST: Final = {"group": "", "resource": "podtemplates", "success": "true", "fallback": "false"}
# What is asked for of a collection with one object, the metric, its labels, and by how much it grows.
COUNTS_OF_READS: Final[dict[str, tuple[str, str, dict[str, str], int]]] = {
    "a list of the newest state": ("", "apiserver_watch_cache_consistent_read_total", LIST, 1),
    "not of any state": ("?resourceVersion=0", "apiserver_watch_cache_consistent_read_total", LIST, 0),
    "the state at the start of a watch": (
        f"?watch=1&timeoutSeconds=1&{INITIAL}",
        "apiserver_init_events_total",
        {"group": "", "resource": "podtemplates"},
        1,
    ),
    "a list from memory is not one from the store": (
        "",
        "apiserver_storage_list_returned_objects_total",
        {"group": "", "resource": "podtemplates"},
        0,
    ),
}


@pytest.mark.parametrize(("query", "name", "labels", "count"), COUNTS_OF_READS.values(), ids=COUNTS_OF_READS)
def test_what_the_cache_does_for_reads_is_counted(
    api: Api, namespace: str, query: str, name: str, labels: dict[str, str], count: int
) -> None:
    """tests/storage/test_watch_cache_counts.py has more."""
    templates = f"/api/v1/namespaces/{namespace}/podtemplates"
    containers = [{"name": "c", "image": "i"}]
    api.post(templates, {"metadata": {"name": "a"}, "template": {"spec": {"containers": containers}}}).ok()

    def read() -> None:
        if "watch" in query:
            with api.watch(f"{templates}{query}") as events:
                events.body()
        else:
            api.get(templates + query).ok()

    assert increase(api, read, name, **labels) == count


def test_what_services_are_given_is_counted(api: Api, namespace: str) -> None:
    """As they come and go; dry runs are given nothing."""
    services = f"/api/v1/namespaces/{namespace}/services"
    spec = {"type": "NodePort", "ports": [{"port": 80}]}
    prefixes = ("kube_apiserver_clusterip_allocator_", "kube_apiserver_nodeport_allocator_")
    names = [
        f"{prefix}{name}"
        for prefix, unit in zip(prefixes, ("ips", "ports"), strict=True)
        for name in (f"allocated_{unit}", f"available_{unit}", "allocation_total", "allocation_errors_total")
    ]

    def changes(act: Callable[[], Any]) -> list[float]:
        before = Scrape(api)
        act()
        # A list of the newest state: the cache has then heard of the claims, too.
        api.get(services).ok()
        after = Scrape(api)
        return [after.value(name) - before.value(name) for name in names]

    def create(name: str, query: str = "", **more: Any) -> Any:
        return api.post(f"{services}{query}", {"metadata": {"name": name}, "spec": {**spec, **more}})

    assert changes(lambda: create("a", "?dryRun=All").ok()) == [0] * 8
    assert changes(lambda: create("a").ok()) == [1, -1, 1, 0, 1, -1, 1, 0]
    taken = api.get(f"{services}/a").ok()["spec"]["clusterIP"]
    assert changes(lambda: create("b", clusterIP=taken)) == [0, 0, 0, 1, 0, 0, 0, 0]
    assert changes(lambda: api.delete(f"{services}/a").ok()) == [-1, 1, 0, 0, -1, 1, 0, 0]


def test_the_size_of_what_is_stored_is_estimated(api: Api, namespace: str) -> None:
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    name, size = "apiserver_resource_size_estimate_bytes", 10_000

    def create() -> None:
        api.post(configmaps, {"metadata": {"name": "large"}, "data": {"k": "v" * size}}).ok()

    assert size < increase(api, create, name, group="", resource="configmaps") < size + 1_000
    assert increase(api, lambda: api.delete(f"{configmaps}/large").ok(), name, resource="configmaps") < -size


def test_initial_events_are_timed_until_their_bookmark(api: Api, configmaps: str) -> None:
    def watch(query: str) -> Callable[[], object]:
        def act() -> None:
            with api.watch(f"{configmaps}?watch=1&timeoutSeconds=1{query}") as events:
                events.body()

        return act

    name, labels = "apiserver_watch_list_duration_seconds_count", {"resource": "configmaps"}
    assert increase(api, watch(f"&{INITIAL}"), name, **labels, scope="namespace") == 1
    assert increase(api, watch(""), name, **labels) == 0


def test_admission_is_counted_by_plugin_and_step(api: Api, namespace: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}}).ok()
    name = "apiserver_admission_{}_admission_duration_seconds_count"
    refused = {"operation": "CREATE", "type": "validate", "rejected": "true"}
    before = Scrape(api)
    assert api.post(f"/api/v1/namespaces/{namespace}/pods", pod("a")).status == 403
    after = Scrape(api)

    def change(of: str, **labels: str) -> float:
        return after.value(name.format(of), **labels) - before.value(name.format(of), **labels)

    assert change("controller", name="PodSecurity", **refused) == 1
    assert change("step", **refused) == 1
    summary = "apiserver_admission_step_admission_duration_seconds_summary_count"
    assert after.value(summary, **refused) - before.value(summary, **refused) == 1
    assert change("step", operation="CREATE", type="admit", rejected="false") == 1
    assert change("step") == 2


def test_requests_in_filters(api: Api, configmaps: str) -> None:
    """Each that goes on passes all of them; who may not, ends in one; who is unknown, in the first."""
    name = "apiserver_request_filter_duration_seconds_count"
    filters = ("authentication", "authorization", "priorityandfairness", "constrainedimpersonation")

    def passed(act: Callable[[], object]) -> list[float]:
        before = Scrape(api)
        act()
        after = Scrape(api)
        # A scrape has passed them before it is told. It does not wait for its turn.
        return [after.value(name, filter=each) - before.value(name, filter=each) for each in filters]

    scrape = passed(lambda: None)
    assert scrape == [1, 1, 0, 0]

    def beside_the_scrape(act: Callable[[], object]) -> list[float]:
        return [found - own for found, own in zip(passed(act), scrape, strict=True)]

    assert beside_the_scrape(lambda: api.get(f"{configmaps}/a").ok()) == [1, 1, 1, 0]
    with api.as_caller("wrong") as stranger:
        assert beside_the_scrape(lambda: stranger.get(configmaps)) == [1, 0, 0, 0]
    as_joe = {"Impersonate-User": "joe"}
    assert beside_the_scrape(lambda: api.send("GET", configmaps, headers=as_joe)) == [1, 0, 0, 1]


def test_rules_of_definitions(api: Api, namespace: str) -> None:
    """They are compiled when the first object needs them, and evaluated for each."""
    size = {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 10"}]}
    schema = {"type": "object", "properties": {"size": size}}
    defined = define(api, definition(new_group(), version(schema=schema)))
    names = [f"apiserver_cel_{what}_duration_seconds_count" for what in ("compilation", "evaluation")]

    def act() -> None:
        defined.create("a", size=1).ok()
        assert defined.create("b", size=10).status == 422

    before = Scrape(api)
    act()
    after = Scrape(api)
    assert [after.value(name) - before.value(name) for name in names] == [1, 2]


# ---- state


def test_the_build_is_that_of_version(api: Api) -> None:
    version = api.get("/version").ok()
    labels = {"git_version": version["gitVersion"], "platform": version["platform"]}
    assert Scrape(api).value("kubernetes_build_info", **labels) == 1


def test_which_feature_gates_are_on(api: Api) -> None:
    scrape = Scrape(api)
    for name, stage, is_on in (("CBORServingAndStorage", "ALPHA", 0), ("ListFromCacheSnapshot", "BETA", 1)):
        assert scrape.value("kubernetes_feature_enabled", name=name, stage=stage) == is_on


def test_the_size_of_the_store_is_known(api: Api) -> None:
    assert Scrape(api).value("apiserver_storage_size_bytes", storage_cluster_id="embedded") > 4096


def test_the_store_and_the_cache_work(api: Api) -> None:
    scrape = Scrape(api)
    assert scrape.value("apiserver_storage_available", storage_cluster_id="embedded") == 1
    assert scrape.value("apiserver_storage_full", storage_cluster_id="embedded") == 0
    assert scrape.value("apiserver_watch_cache_lag_seconds") < 5
    assert scrape.value("apiserver_watch_cache_refills_total") == 0, "the first list is none"


# The metric, its labels, and the default of the flag.
LIMITS: Final[dict[str, tuple[str, dict[str, str], int]]] = {
    "reads": ("apiserver_inflight_requests_max", {"request_kind": "readOnly"}, 400),
    "writes": ("apiserver_inflight_requests_max", {"request_kind": "mutating"}, 200),
    "watches": ("apiserver_watches_max", {}, 10_000),
    "connections": ("apiserver_connections_max", {}, 10_000),
}


@pytest.mark.parametrize(("name", "labels", "limit"), LIMITS.values(), ids=LIMITS)
def test_limits(api: Api, name: str, labels: dict[str, str], limit: int) -> None:
    found = Scrape(api).value(name, **labels)
    assert found == limit or (name == "apiserver_connections_max" and 0 < found < limit), "few open files"


def test_open_connections_and_watches(api: Api, namespace: str, configmaps: str) -> None:
    """Watches of members of system:masters do not count."""
    grant(api, namespace, "alice", rule("watch", "configmaps"))
    before = Scrape(api)
    with api.as_caller("alice-token") as user, user.watch(f"{configmaps}?watch=1") as events:
        assert events.take(1) == [("ADDED", "a")]
        with api.watch(f"{configmaps}?watch=1") as of_master:
            assert of_master.take(1) == [("ADDED", "a")]
            after = Scrape(api)
    assert after.value("apiserver_watches") - before.value("apiserver_watches") == 1
    assert after.value("apiserver_connections") > before.value("apiserver_connections")


def test_requests_in_flight(api: Api) -> None:
    """The one that asks is under way itself."""
    scrape = Scrape(api)
    name = "apiserver_current_inflight_requests"
    kinds = {kind: scrape.value(name, request_kind=kind) for kind in ("readOnly", "mutating")}
    assert kinds == {"readOnly": 1, "mutating": 0}


def test_objects_are_counted(api: Api, configmaps: str) -> None:
    """Row N10: as they come and go, by resource and group."""

    def create(path: str) -> None:
        api.post(path, NEW).ok()

    name = "apiserver_storage_objects"
    steps: list[tuple[Callable[[], object], int]] = [
        (lambda: create(configmaps), 1),
        (lambda: api.patch(f"{configmaps}/b", {"data": {"k": "v"}}).ok(), 0),
        (lambda: api.delete(f"{configmaps}/b").ok(), -1),
    ]
    for act, change in steps:
        assert increase(api, act, name, resource="configmaps") == change
    leases = configmaps.replace("/api/v1", "/apis/coordination.k8s.io/v1").replace("configmaps", "leases")
    assert increase(api, lambda: create(leases), name, resource="leases.coordination.k8s.io") == 1


def test_events_are_counted(api: Api, configmaps: str) -> None:
    """As the cache is told of them, and as each watch gets them."""
    start = api.get(configmaps).ok()["metadata"]["resourceVersion"]
    path = f"{configmaps}?watch=1&resourceVersion={start}"

    def act() -> None:
        with api.watch(path) as one, api.watch(path) as other:
            api.post(configmaps, NEW).ok()
            api.patch(f"{configmaps}/b", {"data": {"k": "v"}}).ok()
            api.delete(f"{configmaps}/b").ok()
            kinds = [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]
            assert one.take(3) == other.take(3) == kinds

    labels = {"resource": "configmaps"}
    before = Scrape(api)
    act()
    after = Scrape(api)

    def change(name: str) -> float:
        return after.value(name, **labels) - before.value(name, **labels)

    assert change("apiserver_watch_events_total") == 6
    sizes = "apiserver_watch_events_sizes"
    assert (change(f"{sizes}_count"), 100 < change(f"{sizes}_sum") / 6 < 10_000) == (6, True)
    assert change("apiserver_watch_cache_events_received_total") == 3


def test_calls_to_the_store_are_timed(api: Api, configmaps: str) -> None:
    """By what is done to which resource. Source: pkg/storage/etcd3, the operations' names."""
    name, kind = "etcd_request_duration_seconds_count", {"group": "", "resource": "configmaps"}
    steps: dict[str, Callable[[], object]] = {
        "create": lambda: api.post(configmaps, NEW).ok(),
        "update": lambda: api.patch(f"{configmaps}/b", {"data": {"k": "v"}}).ok(),
        "delete": lambda: api.delete(f"{configmaps}/b").ok(),
    }
    for operation, act in steps.items():
        assert increase(api, act, name, operation=operation, **kind) == 1, operation
    cached = f"{configmaps}/a?resourceVersion=0"
    assert increase(api, lambda: api.get(cached).ok(), name, **kind) == 0, "from the cache"


def test_the_cache_was_filled_once(api: Api) -> None:
    """And nothing has made it begin anew."""
    scrape = Scrape(api)
    values = {s.value for s in scrape.samples if s.name == "apiserver_watch_cache_initializations_total"}
    assert values == {1}


def test_the_process_is_measured(api: Api) -> None:
    scrape = Scrape(api)
    for name in ("process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"):
        assert scrape.value(name) > 0
    assert scrape.value("process_start_time_seconds") > 1.7e9
