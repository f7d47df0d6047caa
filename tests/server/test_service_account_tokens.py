"""Tokens of service accounts: in Secrets, and those that pods mount. Rows O01, O08.

https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/
"""

from __future__ import annotations

import base64
import http.client
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kubernetes import client
from kubernetes.config.incluster_config import InClusterConfigLoader

from tests.server.test_audit import Log
from tests.support.api import Answer, Api, until_status
from tests.support.audit import audit_flags
from tests.support.etcd_process import EtcdProcess
from tests.support.eventually import until
from tests.support.kubectl import MISSING, program, usable_versions
from tests.support.metrics import metric
from tests.support.server_process import ServerProcess

NAMESPACE: Final = "default"
ACCOUNTS: Final = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
SECRETS: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
WHO: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
LAST_USED: Final = "kubernetes.io/legacy-token-last-used"
YEAR_S: Final = 365 * 24 * 3600


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("tokens")
    controllers = "--controllers=namespace-controller,serviceaccount-token-controller"
    with ServerProcess(directory / "data", controllers, *audit_flags(directory)) as server:
        yield server


@pytest.fixture
def log(server: ServerProcess) -> Log:
    return Log(server.data_dir.parent / "audit.log")


def account(api: Api, name: str) -> str:
    """Create a service account, and return its uid."""
    return str(api.post(ACCOUNTS, {"metadata": {"name": name}}).ok()["metadata"]["uid"])


def secret(api: Api, name: str, of: str) -> dict[str, Any]:
    """Create a Secret for a token of an account, and return it when it is filled in."""
    annotations = {"kubernetes.io/service-account.name": of}
    body = {
        "metadata": {"name": name, "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    }
    api.post(SECRETS, body).ok()
    found: Answer = until(lambda: api.get(f"{SECRETS}/{name}"), lambda answer: "data" in answer.ok())
    document: dict[str, Any] = found.json
    return document


def token_in(document: dict[str, Any]) -> str:
    return base64.b64decode(document["data"]["token"]).decode()


def who(api: Api, token: str) -> Answer:
    with api.as_caller(token) as caller:
        return caller.post(WHO, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})


def reviewed(api: Api, token: str, *audiences: str) -> dict[str, Any]:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": list(audiences)},
    }
    status: dict[str, Any] = api.post("/apis/authentication.k8s.io/v1/tokenreviews", body).ok()["status"]
    return status


# ---- tokens in Secrets


def test_a_secret_is_filled_in_and_its_token_logs_in(server: ServerProcess, api: Api) -> None:
    uid = account(api, "filled")
    found = secret(api, "filled-token", "filled")
    assert found["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == uid
    assert base64.b64decode(found["data"]["namespace"]).decode() == NAMESPACE
    assert base64.b64decode(found["data"]["ca.crt"]) == server.ca_path.read_bytes()
    token = token_in(found)
    claims = jwt.decode(token, options={"verify_signature": False})
    prefix = "kubernetes.io/serviceaccount"
    assert claims == {
        "iss": "kubernetes/serviceaccount",
        f"{prefix}/namespace": NAMESPACE,
        f"{prefix}/secret.name": "filled-token",
        f"{prefix}/service-account.name": "filled",
        f"{prefix}/service-account.uid": uid,
        "sub": f"system:serviceaccount:{NAMESPACE}:filled",
    }
    user = who(api, token).ok()["status"]["userInfo"]
    assert user == {
        "username": f"system:serviceaccount:{NAMESPACE}:filled",
        "uid": uid,
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"],
    }
    today = time.strftime("%Y-%m-%d", time.gmtime())
    labels = until(lambda: api.get(f"{SECRETS}/filled-token").ok()["metadata"].get("labels"))
    assert today <= labels[LAST_USED] <= time.strftime("%Y-%m-%d", time.gmtime())
    assert metric(api, "serviceaccount_legacy_manual_token_uses_total") >= 1


def test_a_token_in_a_secret_is_for_the_server_only(api: Api) -> None:
    account(api, "audience")
    token = token_in(secret(api, "audience-token", "audience"))
    assert reviewed(api, token)["audiences"] == ["https://kubernetes.default.svc"]
    assert "authenticated" not in reviewed(api, token, "somebody")


def test_a_token_goes_with_its_secret(api: Api) -> None:
    account(api, "gone")
    token = token_in(secret(api, "gone-token", "gone"))
    api.delete(f"{SECRETS}/gone-token").ok()
    assert who(api, token).status == 401
    assert reviewed(api, token)["error"] == "[invalid bearer token, Token has been invalidated]"
    # Another Secret of the same name has another token, or the same, but is another one's no more.
    again = token_in(secret(api, "gone-token", "gone"))
    assert who(api, again).status == 201


def test_a_token_goes_with_its_account_and_so_does_the_secret(api: Api) -> None:
    account(api, "fired")
    token = token_in(secret(api, "fired-token", "fired"))
    assert who(api, token).status == 201
    api.delete(f"{ACCOUNTS}/fired").ok()
    assert who(api, token).status == 401
    until_status(404, lambda: api.get(f"{SECRETS}/fired-token"))


def test_a_secret_of_no_account_is_deleted(api: Api) -> None:
    annotations = {"kubernetes.io/service-account.name": "nobody"}
    body = {
        "metadata": {"name": "orphan", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    }
    api.post(SECRETS, body).ok()
    until_status(404, lambda: api.get(f"{SECRETS}/orphan"))


def test_a_secret_that_is_marked_as_invalid_or_has_another_token(api: Api) -> None:
    account(api, "marked")
    token = token_in(secret(api, "marked-token", "marked"))
    label = "kubernetes.io/legacy-token-invalid-since"
    api.patch(f"{SECRETS}/marked-token", {"metadata": {"labels": {label: "2026-01-01"}}}).ok()
    assert who(api, token).status == 401
    assert "has been marked invalid" in reviewed(api, token)["error"]
    api.patch(f"{SECRETS}/marked-token", {"metadata": {"labels": {label: None}}}).ok()
    assert who(api, token).status == 201
    other = {"data": {"token": base64.b64encode(b"other").decode()}}
    api.patch(f"{SECRETS}/marked-token", other).ok()
    assert "Token does not match server's copy" in reviewed(api, token)["error"]
    # Without a token it is given one again.
    api.patch(f"{SECRETS}/marked-token", {"data": {"token": None}}).ok()
    until(lambda: "token" in api.get(f"{SECRETS}/marked-token").ok()["data"])


def test_audit_events_tell_that_a_token_stands_in_a_secret(api: Api, log: Log) -> None:
    """And a warning does where the account has had it made by itself, as before Kubernetes 1.24."""
    account(api, "recorded")
    token = token_in(secret(api, "recorded-token", "recorded"))

    def told(answer: Answer) -> dict[str, str]:
        """What the event of a request has of its token. Nobody's request has one event only."""
        audit_id = answer.headers["audit-id"]
        if answer.status == 401:
            (event,) = until(lambda: [each for each in log.all() if each["auditID"] == audit_id])
        else:
            event = log.of(audit_id)[-1]
        prefix = "authentication.k8s.io/"
        annotations = event.get("annotations", {}).items()
        return {key.removeprefix(prefix): value for key, value in annotations if key.startswith(prefix)}

    name = f"system:serviceaccount:{NAMESPACE}:recorded"
    by_hand = who(api, token)
    assert told(by_hand) == {"legacy-token": name, "legacy-token-manual-secret": "recorded-token"}
    assert by_hand.warnings == []
    api.patch(f"{ACCOUNTS}/recorded", {"secrets": [{"name": "recorded-token"}]}).ok()
    of_account = until(lambda: who(api, token), lambda answer: answer.warnings != [])
    (warning,) = of_account.warnings
    assert warning.startswith("Use tokens from the TokenRequest API or manually created secret-based tokens")
    assert told(of_account) == {"legacy-token": name, "legacy-token-autogenerated-secret": "recorded-token"}
    label = "kubernetes.io/legacy-token-invalid-since"
    api.patch(f"{SECRETS}/recorded-token", {"metadata": {"labels": {label: "2026-01-01"}}}).ok()
    refused = until_status(401, lambda: who(api, token))
    assert told(refused) == {"legacy-token": name, "legacy-token-invalidated": f"recorded-token/{NAMESPACE}"}
    assert told(api.get(SECRETS)) == {}


# ---- tokens that pods mount


def requested(api: Api, name: str, **spec: Any) -> dict[str, Any]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    document: dict[str, Any] = api.post(f"{ACCOUNTS}/{name}/token", body).ok()
    return document


def test_what_kubelets_ask_for_is_valid_for_a_year(api: Api) -> None:
    account(api, "mounted")
    spec = {"serviceAccountName": "mounted", "containers": [{"name": "c", "image": "i"}]}
    pod = api.post(PODS, {"metadata": {"name": "mounting"}, "spec": spec}).ok()
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "mounting", "uid": pod["metadata"]["uid"]}
    lifetimes: dict[str, tuple[dict[str, Any], int]] = {
        "as kubelets do": ({"expirationSeconds": 3607, "boundObjectRef": bound}, YEAR_S),
        "for another time": ({"expirationSeconds": 3608, "boundObjectRef": bound}, 3608),
        "for no pod": ({"expirationSeconds": 3607}, 3607),
        "for others": ({"expirationSeconds": 3607, "boundObjectRef": bound, "audiences": ["x"]}, 3607),
    }
    for asked, lifetime_s in lifetimes.values():
        answer = requested(api, "mounted", **asked)
        claims = jwt.decode(answer["status"]["token"], options={"verify_signature": False})
        assert claims["exp"] - claims["iat"] == lifetime_s
        stale = claims["kubernetes.io"].get("warnafter")
        assert stale == (claims["iat"] + 3607 if lifetime_s == YEAR_S else None)
        assert answer["spec"]["expirationSeconds"] == asked["expirationSeconds"]
    token = requested(api, "mounted", **lifetimes["as kubelets do"][0])["status"]["token"]
    assert who(api, token).status == 201
    assert metric(api, "serviceaccount_valid_tokens_total") >= 1
    api.delete(f"{PODS}/mounting", {"gracePeriodSeconds": 0}).ok()
    assert who(api, token).status == 401


UID_GATE: Final = "TokenRequestServiceAccountUIDValidation"


@pytest.mark.parametrize(
    ("flags", "answer_to_another_uid"),
    [
        ((), "refused"),
        ((f"--feature-gates={UID_GATE}=false",), "warned"),
        (("--emulated-version=1.33",), "own"),
    ],
    ids=["on by default", "off", "before 1.34"],
)
def test_a_token_request_with_the_uid_of_another_account(
    tmp_path: Path, flags: tuple[str, ...], answer_to_another_uid: str
) -> None:
    """The account that is meant may have been deleted, and made again. Also in a dry run."""
    path = tmp_path / "audit.log"
    with ServerProcess(tmp_path / "data", *flags, *audit_flags(tmp_path)) as server, Api(server) as api:
        uid = account(api, "again")
        why = f"the UID in the token request (x) does not match the UID of the service account ({uid})"

        def ask(asked: str, query: str = "") -> Answer:
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            return api.post(f"{ACCOUNTS}/again/token{query}", {**body, "metadata": {"uid": asked}})

        for same in "", uid:
            assert ask(same).ok()["metadata"]["uid"] == uid
        for query in "", "?dryRun=All":
            another = ask("x", query)
            event = Log(path).of(another.headers["audit-id"])[-1]
            noted = event.get("annotations", {}).get("authentication.k8s.io/token-request-uid-mismatch")
            if answer_to_another_uid == "refused":
                assert (another.status, another.reason) == (409, "Conflict")
                prefix = 'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "again": '
                assert another.message == prefix + why
                assert noted is None
            elif answer_to_another_uid == "warned":
                assert another.ok()["metadata"]["uid"] == "x"
                then = "In the future, this will return a conflict error"
                assert another.warnings == [f"{why} but {UID_GATE} is not enabled. {then}"]
                assert noted == why
            else:
                assert another.ok()["metadata"]["uid"] == uid
                assert (another.warnings, noted) == ([], None)


def test_a_program_in_a_pod_uses_what_is_mounted(server: ServerProcess, api: Api, tmp_path: Path) -> None:
    """It finds the server by its environment, and its token and the CA in files."""
    account(api, "program")
    (tmp_path / "token").write_text(requested(api, "program")["status"]["token"])
    (tmp_path / "ca.crt").write_bytes(server.ca_path.read_bytes())
    where = urlsplit(server.url)
    configuration = client.Configuration()
    load: Any = InClusterConfigLoader
    loader = load(
        token_filename=str(tmp_path / "token"),
        cert_filename=str(tmp_path / "ca.crt"),
        environ={"KUBERNETES_SERVICE_HOST": str(where.hostname), "KUBERNETES_SERVICE_PORT": str(where.port)},
    )
    loader.load_and_set(configuration)
    with client.ApiClient(configuration) as connection:
        reviews = client.AuthenticationV1Api(connection)
        found: Any = reviews.create_self_subject_review(client.V1SelfSubjectReview())
    assert found.status.user_info.username == f"system:serviceaccount:{NAMESPACE}:program"


@pytest.mark.kubectl
def test_kubectl_creates_tokens_and_tells_whose_they_are(server: ServerProcess, api: Api) -> None:
    kubectl = program((usable_versions() or [MISSING])[-1])

    def run(*arguments: str) -> str:
        command = [kubectl, f"--kubeconfig={server.kubeconfig}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    account(api, "tool")
    token = run("create", "token", "tool", "--duration=10m").strip()
    told = run(
        *("auth", "whoami", f"--server={server.url}", f"--certificate-authority={server.ca_path}"),
        *(f"--token={token}", "--kubeconfig=/dev/null", "-o=jsonpath={.status.userInfo.username}"),
    )
    assert told == f"system:serviceaccount:{NAMESPACE}:tool"


# ---- keys are replaced


def new_key(path: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    return path


class Load:
    """Asks the servers in turn, with tokens that they have issued; `statuses` are their answers."""

    def __init__(self, servers: tuple[ServerProcess, ServerProcess]) -> None:
        self._servers = servers
        self.tokens: list[str] = []
        self.statuses: list[int] = []
        self.is_over = False

    def run(self) -> None:
        while not self.is_over:
            # The first and the last: a token is valid as long as its key is known.
            for token in {self.tokens[0], self.tokens[-1]}:
                self.statuses += [status for each in self._servers if (status := self.ask(each, token))]

    def ask(self, server: ServerProcess, token: str) -> int:
        """Returns 0 if the server is away, or not ready: who balances load asks another one then."""
        try:
            with Api(server, "") as probe, Api(server, token) as api:
                return api.get("/api").status if probe.get("/readyz").status == 200 else 0
        except (OSError, http.client.HTTPException):
            return 0


@pytest.mark.slow
@pytest.mark.etcd
def test_keys_of_tokens_rotate_on_one_server_after_the_other_and_no_request_fails(
    tmp_path: Path, etcd: EtcdProcess
) -> None:
    """In the three steps of docs/operating/access.md."""
    old, new = new_key(tmp_path / "old.key"), new_key(tmp_path / "new.key")

    def signing(key: Path, *others: Path) -> tuple[str, ...]:
        return (
            f"--service-account-signing-key-file={key}",
            *(f"--service-account-key-file={each}" for each in others),
        )

    flag = f"--etcd-servers={etcd.url}"
    with (
        ServerProcess(tmp_path / "one", flag, *signing(old)) as one,
        ServerProcess(tmp_path / "two", flag, *signing(old)) as two,
        ThreadPoolExecutor(1) as threads,
    ):
        with Api(one) as api:
            account(api, "rotating")
        load = Load((one, two))

        def issue(server: ServerProcess) -> None:
            with Api(server) as api:
                load.tokens.append(requested(api, "rotating")["status"]["token"])

        issue(one)
        asking = threads.submit(load.run)
        try:
            for flags in (signing(old, new), signing(new, old)):
                for server in (one, two):
                    assert server.stop() == 0
                    server.flags = (flag, *flags)
                    server.start()
                    issue(server)
                    seen = len(load.statuses)
                    until(lambda seen=seen: len(load.statuses) > seen + 4)  # type: ignore[misc]
        finally:
            load.is_over = True
        asking.result()
        assert set(load.statuses) == {200}
        # Without the old key, its tokens end.
        assert one.stop() == 0
        one.flags = (flag, *signing(new))
        one.start()
        assert load.ask(one, load.tokens[0]) == 401
        assert load.ask(one, load.tokens[-1]) == 200
        with Api(one) as api:
            assert len(api.get("/openid/v1/jwks").ok()["keys"]) == 1
        with Api(two) as api:
            assert len(api.get("/openid/v1/jwks").ok()["keys"]) == 2
