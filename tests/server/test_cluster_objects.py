"""What is always there on Kubernetes: a Service for the API itself, its endpoints, and what tools ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import jwt
import pytest

from tests.support.api import Api, until_status
from tests.support.definitions import define, definition
from tests.support.etcd_process import EtcdProcess
from tests.support.eventually import until
from tests.support.fixtures import api_with
from tests.support.server_process import ServerProcess

ADDRESS: Final = "192.0.2.7"
SERVICE: Final = "/api/v1/namespaces/default/services/kubernetes"
ENDPOINTS: Final = "/api/v1/namespaces/default/endpoints/kubernetes"
SLICE: Final = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
ACCOUNTS: Final = "/api/v1/namespaces/default/serviceaccounts"
AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
# Longer than the interval at which servers look at the endpoints.
WITHIN_S: Final = 120.0


api = api_with(f"--advertise-address={ADDRESS}", "--service-cluster-ip-range=10.7.0.0/16,fd07::/112")


def port(api: Api) -> int:
    return int(api.server.url.rpartition(":")[2])


def test_the_service_has_the_first_address_and_leads_here(api: Api) -> None:
    service = api.get(SERVICE).ok()
    assert service["spec"]["clusterIP"] == "10.7.0.1"
    assert service["spec"]["ports"][0]["targetPort"] == port(api)
    taken = {"metadata": {"name": "thief"}, "spec": {"clusterIP": "10.7.0.1", "ports": [{"port": 1}]}}
    assert api.post(SERVICE.rpartition("/")[0], taken).status == 422


def test_its_endpoints_are_the_advertised_address(api: Api) -> None:
    subsets = api.get(ENDPOINTS).ok()["subsets"]
    assert [each["ip"] for each in subsets[0]["addresses"]] == [ADDRESS]
    assert api.get(SLICE).ok()["endpoints"][0]["addresses"] == [ADDRESS]
    assert api.get(SLICE).ok()["ports"][0]["port"] == subsets[0]["ports"][0]["port"] == port(api)


def test_the_range_of_service_addresses_is_an_object(api: Api) -> None:
    networking = "/apis/networking.k8s.io/v1"
    found = api.get(f"{networking}/servicecidrs/kubernetes").ok()
    assert found["spec"] == {"cidrs": ["10.7.0.0/16", "fd07::/112"]}
    assert [(each["type"], each["status"]) for each in found["status"]["conditions"]] == [("Ready", "True")]
    address = api.get(f"{networking}/ipaddresses/10.7.0.1").ok()
    assert address["spec"]["parentRef"]["name"] == "kubernetes"


def test_every_version_that_is_served_has_an_api_service(api: Api) -> None:
    found = api.get("/apis/apiregistration.k8s.io/v1/apiservices").ok()["items"]
    names = {each["metadata"]["name"] for each in found}
    served = {"v1."}
    for group in api.get("/apis").ok()["groups"]:
        served |= {f"{each['version']}.{group['name']}" for each in group["versions"]}
    assert names == served - {"v1.apiregistration.k8s.io"}
    for each in found:
        assert each["metadata"]["labels"] == {AUTOMANAGED: "onstart"}
        conditions = each["status"]["conditions"]
        assert [(one["type"], one["status"], one["reason"]) for one in conditions] == [
            ("Available", "True", "Local")
        ]


def test_definitions_have_api_services_while_they_are_there(api: Api) -> None:
    defined = define(api, definition("a.example.com"))
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.a.example.com"
    found = until_status(200, lambda: api.get(path), "registered").json
    assert found["metadata"]["labels"] == {AUTOMANAGED: "true"}
    assert (found["spec"]["groupPriorityMinimum"], found["spec"]["versionPriority"]) == (1000, 100)
    assert found["status"]["conditions"][0]["reason"] == "Local"
    api.delete(defined.path).ok()
    until_status(404, lambda: api.get(path), "gone")


def test_tokens_can_be_verified_with_what_discovery_tells(api: Api) -> None:
    """Row O08: as others do who are no part of the cluster."""
    api.post(ACCOUNTS, {"metadata": {"name": "bot"}}).ok()
    body: dict[str, Any] = {"spec": {"audiences": ["elsewhere"]}}
    token = api.post(f"{ACCOUNTS}/bot/token", body).ok()["status"]["token"]
    configuration = api.get("/.well-known/openid-configuration").ok()
    assert configuration["jwks_uri"] == f"https://{ADDRESS}:{port(api)}/openid/v1/jwks"
    keys = api.send("GET", "/openid/v1/jwks", headers={"Accept": "application/jwk-set+json"}).ok()["keys"]
    key = jwt.PyJWK(next(each for each in keys if each["kid"] == jwt.get_unverified_header(token)["kid"]))
    claims = jwt.decode(
        token,
        key,
        algorithms=configuration["id_token_signing_alg_values_supported"],
        issuer=configuration["issuer"],
        audience="elsewhere",
    )
    assert claims["sub"] == "system:serviceaccount:default:bot"
    assert {api.send("HEAD", path).status for path in ("/openid/v1/jwks",)} == {405}


def test_an_issuer_that_is_no_url_is_not_discovered(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--service-account-issuer=api") as server, Api(server) as api:
        assert api.get("/.well-known/openid-configuration").status == 404
        assert "OpenID" in server.stderr


def test_endpoints_may_be_left_to_others(tmp_path: Path) -> None:
    flag = "--endpoint-reconciler-type=none"
    with ServerProcess(tmp_path, flag) as server, Api(server) as api:
        assert api.get(SERVICE).status == 200
        assert api.get(ENDPOINTS).status == 404


def test_an_address_that_endpoints_may_not_have_is_no_obstacle(tmp_path: Path) -> None:
    flag = "--advertise-address=127.0.0.1"
    with ServerProcess(tmp_path, flag) as server, Api(server) as api:
        assert api.get(SERVICE).status == 200
        assert api.get(ENDPOINTS).status == 404


@pytest.mark.etcd
@pytest.mark.slow
def test_the_endpoints_are_the_replicas_that_live(tmp_path: Path, etcd: EtcdProcess) -> None:
    flag = f"--etcd-servers={etcd.url}"

    def addresses(api: Api) -> set[str]:
        subsets = api.get(ENDPOINTS).json.get("subsets") or ()
        return {each["ip"] for subset in subsets for each in subset["addresses"]}

    with (
        ServerProcess(tmp_path / "one", flag, "--advertise-address=192.0.2.1") as one,
        ServerProcess(tmp_path / "two", flag, "--advertise-address=192.0.2.2") as two,
        Api(one) as api,
    ):
        until(lambda: addresses(api) == {"192.0.2.1", "192.0.2.2"})
        assert two.stop() == 0
        # It has removed itself; the other one may have looked before, and written after.
        until(lambda: addresses(api) == {"192.0.2.1"}, what="it is gone")
        with ServerProcess(tmp_path / "three", flag, "--advertise-address=192.0.2.3") as three:
            three.kill()
        until(lambda: addresses(api) == {"192.0.2.1"}, what="it is gone")
