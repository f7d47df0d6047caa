"""Servers on one etcd are one cluster: whichever a client knows, it knows all of them."""

from __future__ import annotations

import json
import shutil
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.api import Api, until_status
from tests.support.etcd_process import EtcdProcess
from tests.support.eventually import WITHIN_S, until
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.etcd

# All controllers: among them the one that publishes the CA.
FLAGS: Final = ("--controllers=*",)
ACCOUNTS: Final = "/api/v1/namespaces/default/serviceaccounts"
LEASE_KEY: Final = "/registry/coordination.k8s.io/leases/kube-system/apiserver-controllers"
# Longer than the shortest interval at which anything is written without a reason.
QUIET_S: Final = 5


def writes(etcd: EtcdProcess) -> int:
    """How many transactions have written anything but the leader's Lease, which is renewed all the time."""
    lease: Any = json.loads(etcd.ctl("get", LEASE_KEY, "-w", "json"))
    return int(lease["header"]["revision"]) - int(lease["kvs"][0]["version"])


@pytest.fixture(scope="module")
def two(etcd: EtcdProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServerProcess]]:
    """Started with no flags about keys, one with workers. Tests may restart the second."""
    directory = tmp_path_factory.mktemp("servers")
    flags = (*FLAGS, f"--etcd-servers={etcd.url}")
    with (
        ServerProcess(directory / "one", *flags) as one,
        ServerProcess(directory / "two", *flags, "--workers=2") as two,
    ):
        yield [one, two]


def token(server: ServerProcess) -> str:
    with Api(server) as api:
        until_status(200, lambda: api.get(f"{ACCOUNTS}/default"), "the account")
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(api.post(f"{ACCOUNTS}/default/token", body).ok()["status"]["token"])


def test_each_trusts_certificates_and_tokens_of_the_other(two: list[ServerProcess]) -> None:
    for one, other in (two, two[::-1]):
        with Api(other, token(one), ca=one.ca_path) as api:
            assert api.get(ACCOUNTS).reason == "Forbidden"  # known, but may not


def test_the_certificates_of_one_administrator_are_good_for_the_other(two: list[ServerProcess]) -> None:
    for one, other in (two, two[::-1]):
        pki = one.data_dir / "pki"
        context = ssl.create_default_context(cafile=pki / "ca.crt")
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        url = f"{other.url}/api/v1/secrets"
        with urllib.request.urlopen(url, context=context, timeout=WITHIN_S) as response:
            assert response.status == 200


def test_nothing_is_written_once_they_are_quiet(etcd: EtcdProcess, two: list[ServerProcess]) -> None:
    """Both publish their CA in each namespace: they must not take turns. Only the Lease is renewed."""
    with Api(two[0]) as api:

        def is_quiet() -> bool:
            before = writes(etcd)
            api.get(f"/api/v1/configmaps?watch=1&timeoutSeconds={QUIET_S}")
            return writes(etcd) == before

        until(is_quiet, what="nobody writes anything else")


def test_a_server_with_an_empty_data_directory_is_the_same_again(two: list[ServerProcess]) -> None:
    one, other = two
    known, bearer = other.ca_path.read_bytes(), token(other)
    other.kill()
    shutil.rmtree(other.data_dir)
    other.start()
    assert other.ca_path.read_bytes() == known
    with Api(other, bearer, ca=one.ca_path) as api:
        assert api.get(ACCOUNTS).reason == "Forbidden"


MIXES: Final = {
    "a service account key from a file": "--service-account-signing-key-file",
    "an issuer of its own": "--service-account-issuer",
}


@pytest.mark.parametrize("flag", MIXES.values(), ids=MIXES)
def test_a_server_with_other_flags_does_not_start_beside_them(
    etcd: EtcdProcess, two: list[ServerProcess], tmp_path: Path, flag: str
) -> None:
    """It waits for the others to go, because they may be what was there before a restart."""
    value = "https://other" if flag.endswith("issuer") else two[0].data_dir / "pki" / "ca.key"
    with ServerProcess(tmp_path / "data", *FLAGS, f"--etcd-servers={etcd.url}", f"{flag}={value}").start(
        awaits_ready=False
    ) as third:
        until(lambda: flag in third.stderr, what="it tells why")
        assert "waiting" in third.stderr
        assert third.stop() == 0
