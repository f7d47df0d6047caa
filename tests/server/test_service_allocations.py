"""Addresses and node ports belong to one Service each, whoever asks and whichever server answers.

Source: kube-apiserver's allocation of cluster IPs and node ports (pkg/registry/core/service).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from tests.support.api import Api
from tests.support.server_process import ServerProcess

# .1 to .14, and three ports.
FLAGS: Final = ("--service-cluster-ip-range=10.9.8.0/28", "--service-node-port-range=31000-31002")
_numbers = itertools.count()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with few addresses and fewer ports."""
    data_dir = tmp_path_factory.mktemp("small") / "data"
    with ServerProcess(data_dir, *FLAGS) as server, Api(server) as api:
        yield api


@pytest.fixture
def services(small: Api) -> Iterator[str]:
    """The path of services; all that a test makes there is deleted, and the server's own stays."""
    path = "/api/v1/namespaces/default/services"
    yield path
    for item in small.get(f"{path}?fieldSelector=metadata.name!=kubernetes").ok()["items"]:
        small.delete(f"{path}/{item['metadata']['name']}").ok()


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": f"s{next(_numbers)}"}, "spec": {"ports": [{"port": 80}], **spec}}


def node_port(number: int | None = None) -> dict[str, Any]:
    port = {"port": 80} if number is None else {"port": 80, "nodePort": number}
    return service(type="NodePort", ports=[port])


def test_every_address_is_given_once_and_then_none_is_left(small: Api, services: str) -> None:
    given = [small.post(services, service()).ok()["spec"]["clusterIP"] for _ in range(13)]
    given.append(small.get(f"{services}/kubernetes").ok()["spec"]["clusterIP"])
    assert sorted(given) == sorted(f"10.9.8.{number}" for number in range(1, 15))
    refused = small.post(services, service())
    assert (refused.status, refused.causes) == (422, [("FieldValueInvalid", "spec.clusterIPs")])
    assert "range is full" in refused.message


def test_what_is_let_go_of_can_be_had_again(small: Api, services: str) -> None:
    asked = service(clusterIP="10.9.8.5", type="NodePort", ports=[{"port": 80, "nodePort": 31000}])
    small.post(services, asked).ok()
    again = {**asked, "metadata": {"name": "again"}}
    assert small.post(services, again).causes == [("FieldValueInvalid", "spec.clusterIPs")]
    small.delete(f"{services}/{asked['metadata']['name']}").ok()
    small.post(services, again).ok()


def test_a_type_that_needs_no_port_lets_go_of_it(small: Api, services: str) -> None:
    first, second = node_port(31001), node_port(31001)
    small.post(services, first).ok()
    assert small.post(services, second).causes == [("FieldValueInvalid", "spec.ports[0].nodePort")]
    small.patch(f"{services}/{first['metadata']['name']}", {"spec": {"type": "ClusterIP"}}).ok()
    small.post(services, second).ok()


def test_an_update_cannot_take_what_is_another_s(small: Api, services: str) -> None:
    first, second = node_port(31001), node_port(31002)
    small.post(services, first).ok()
    small.post(services, second).ok()
    path = f"{services}/{second['metadata']['name']}"
    taken = small.patch(path, {"spec": {"ports": [{"port": 80, "nodePort": 31001}]}})
    assert (taken.status, taken.causes) == (422, [("FieldValueInvalid", "spec.ports[0].nodePort")])
    assert small.get(path).ok()["spec"]["ports"][0]["nodePort"] == 31002


def test_an_update_gets_what_its_type_needs(small: Api, services: str) -> None:
    path = f"{services}/{small.post(services, service()).ok()['metadata']['name']}"
    changed = small.patch(path, {"spec": {"type": "NodePort"}}).ok()
    assert changed["spec"]["ports"][0]["nodePort"] in range(31000, 31003)
    gone = small.patch(path, {"spec": {"type": "ExternalName", "externalName": "a.example.com"}}).ok()
    assert "clusterIP" not in gone["spec"]


REFUSED: Final = {
    "an address outside of the range": (service(clusterIP="10.1.1.1"), "spec.clusterIPs"),
    "the network's own address": (service(clusterIP="10.9.8.0"), "spec.clusterIPs"),
    "the broadcast address": (service(clusterIP="10.9.8.15"), "spec.clusterIPs"),
    "a port outside of the range": (node_port(30999), "spec.ports[0].nodePort"),
}


@pytest.mark.parametrize(("asked", "field"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("query", ["", "?dryRun=All"])
def test_what_cannot_be_had(small: Api, services: str, asked: dict[str, Any], field: str, query: str) -> None:
    answer = small.post(services + query, asked)
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", field)])


def test_a_dry_run_takes_nothing(small: Api, services: str) -> None:
    asked = service(clusterIP="10.9.8.6")
    for _ in range(2):
        small.post(services + "?dryRun=All", asked).ok()
    small.post(services, asked).ok()
    refused = small.post(services + "?dryRun=All", {**asked, "metadata": {"name": "other"}})
    assert refused.causes == [("FieldValueInvalid", "spec.clusterIPs")]


def test_a_service_that_cannot_be_created_holds_nothing(small: Api, services: str) -> None:
    first = service(clusterIP="10.9.8.6")
    small.post(services, first).ok()
    assert small.post(services, {**first, "spec": {**first["spec"], "clusterIP": "10.9.8.7"}}).status == 409
    small.post(services, service(clusterIP="10.9.8.7")).ok()


def test_more_than_can_be_held_is_refused(small: Api, services: str) -> None:
    ports = [{"name": f"p{n}", "port": n, "nodePort": 31000 + n} for n in range(1, 300)]
    assert small.post(services, service(type="NodePort", ports=ports)).status == 422


def test_those_who_ask_at_once_get_different_ones(small: Api, services: str) -> None:
    def create(_: int) -> str | None:
        with Api(small.server) as api:
            answer = api.post(services, service(type="NodePort"))
            return answer.json["spec"]["clusterIP"] if answer.status == 201 else None

    with ThreadPoolExecutor(8) as threads:
        given = [ip for ip in threads.map(create, range(8)) if ip]
    assert len(given) == 3 == len(set(given)), "there are three ports, and each is somebody's"


@pytest.mark.etcd
def test_two_servers_hand_out_nothing_twice(replicas: tuple[Api, Api]) -> None:
    """Each address and port that several ask for at once is one Service's; all that are given differ."""
    path = "/api/v1/namespaces/default/services"
    # Of the parts of the ranges from which nothing is given that nobody has asked for.
    asked = [f"10.0.0.{number}" for number in range(201, 206)]

    def create(writer: int) -> list[tuple[int, dict[str, Any]]]:
        answers = []
        with Api(replicas[writer % 2].server) as api:
            for number, ip in enumerate(asked):
                port = {"port": 80, "nodePort": 30_040 + number}
                answers.append(api.post(path, service(type="NodePort", clusterIP=ip)))
                answers.append(api.post(path, service(type="NodePort", ports=[port])))
                answers.append(api.post(path, service(type="NodePort")))
        return [(answer.status, answer.json.get("spec", {})) for answer in answers]

    with ThreadPoolExecutor(6) as threads:
        results = [each for found in threads.map(create, range(6)) for each in found]
    made = [spec for status, spec in results if status == 201]
    assert {status for status, _ in results} == {201, 422}
    assert len(made) == 6 * 5 + 2 * 5, "who asks for nothing special, and one of those who ask for the same"
    addresses = [spec["clusterIP"] for spec in made]
    ports = [spec["ports"][0]["nodePort"] for spec in made]
    assert len(set(addresses)) == len(addresses)
    assert len(set(ports)) == len(ports)
    found = replicas[0].get("/apis/networking.k8s.io/v1/ipaddresses").ok()["items"]
    assert {*addresses} <= {each["metadata"]["name"] for each in found}
