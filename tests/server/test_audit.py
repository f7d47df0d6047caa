"""What is recorded of requests, in the words of Kubernetes: levels, stages, annotations.

https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from tests.support.api import Answer, Api
from tests.support.audit import audit_flags
from tests.support.eventually import until
from tests.support.kubeconfigs import kubeconfig_of_webhook
from tests.support.logged_secrets import MARK
from tests.support.metrics import metric, metrics_of
from tests.support.objects import pod
from tests.support.raw import raw_connection
from tests.support.server_process import ServerProcess
from tests.support.webhook_server import WebhookServer

CONFIGMAPS: Final = "/api/v1/namespaces/default/configmaps"
SECRETS: Final = "/api/v1/namespaces/default/secrets"
COMPLETE: Final = ["RequestReceived", "ResponseComplete"]
LONG: Final = ["RequestReceived", "ResponseStarted", "ResponseComplete"]
POLICY: Final = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: None, nonResourceURLs: ["/livez*", "/readyz*"]}
- {level: Metadata, resources: [{group: "", resources: [secrets, serviceaccounts/token]}]}
- {level: Request, resources: [{group: "", resources: [services]}]}
- {level: RequestResponse, omitManagedFields: true, resources: [{group: "", resources: [endpoints]}]}
- {level: Metadata, nonResourceURLs: ["*"]}
- {level: Request, users: [alice]}
- {level: RequestResponse}
"""


class Log:
    """The events of a server."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, audit_id: str) -> list[dict[str, Any]]:
        """Returns the events of a request that has been answered, once its last one is there."""
        return until(
            lambda: [each for each in self.all() if each["auditID"] == audit_id],
            lambda found: bool(found) and found[-1]["stage"] in ("ResponseComplete", "Panic"),
            "the last event of the request",
        )

    def all(self) -> list[dict[str, Any]]:
        lines = self._path.read_bytes().splitlines(keepends=True)
        return [orjson.loads(line) for line in lines if line.endswith(b"\n")]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[ServerProcess]:
    flags = audit_flags(directory, POLICY)
    with ServerProcess(directory / "data", *flags, "--anonymous-auth=false") as server:
        yield server


@pytest.fixture
def log(server: ServerProcess, directory: Path) -> Log:
    return Log(directory / "audit.log")


def last_event(log: Log, answer: Answer, stages: list[str] = COMPLETE) -> dict[str, Any]:
    """Returns the last event of a request, whose stages must be these."""
    events = log.of(answer.headers["audit-id"])
    assert [each["stage"] for each in events] == stages
    assert {each["requestReceivedTimestamp"] for each in events} == {events[0]["stageTimestamp"]}
    return events[-1]


def test_what_is_remembered_of_a_path_is_of_one_verb_and_user(api: Api, log: Log) -> None:
    path = f"{CONFIGMAPS}/asked-for-by-several"
    seen = []
    alice = api.as_caller("alice-token")
    for _ in range(2):
        for client in (api, alice):
            for answer in (client.get(path), client.delete(path)):
                found = last_event(log, answer)
                seen.append((found["user"]["username"], found["verb"], found["level"]))
                assert found["requestURI"] == path
                assert found["objectRef"]["name"] == "asked-for-by-several"
    alice.close()
    assert seen == 2 * [
        ("admin", "get", "RequestResponse"),
        ("admin", "delete", "RequestResponse"),
        ("alice", "get", "Request"),
        ("alice", "delete", "Request"),
    ]


def test_a_create_at_the_highest_level(api: Api, log: Log) -> None:
    body = b'{"metadata":{"name":"a"},\n "data":{"x":"1"}}'
    answer = api.post(f"{CONFIGMAPS}?fieldManager=me&x=<>", body)
    found = last_event(log, answer)
    assert found["kind"] == "Event"
    assert found["apiVersion"] == "audit.k8s.io/v1"
    assert found["level"] == "RequestResponse"
    assert found["requestURI"] == f"{CONFIGMAPS}?fieldManager=me&x=<>"
    assert found["verb"] == "create"
    assert found["user"]["username"] == "admin"
    assert "system:masters" in found["user"]["groups"]
    assert found["sourceIPs"] == ["127.0.0.1"]
    assert found["objectRef"] == {
        "resource": "configmaps",
        "namespace": "default",
        "name": "a",
        "apiVersion": "v1",
    }
    assert found["responseStatus"] == {"metadata": {}, "code": 201}
    assert found["requestObject"] == orjson.loads(body)
    assert found["responseObject"] == answer.json
    assert found["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found["stageTimestamp"])


def test_an_update_names_the_version_and_the_uid_that_were_sent(api: Api, log: Log) -> None:
    created = api.post(CONFIGMAPS, {"metadata": {"name": "versioned"}}).ok()
    found = last_event(log, api.put(f"{CONFIGMAPS}/versioned", created))
    assert found["objectRef"]["uid"] == created["metadata"]["uid"]
    assert found["objectRef"]["resourceVersion"] == created["metadata"]["resourceVersion"]


def test_secrets_and_tokens_are_not_recorded_where_the_policy_says_metadata(
    api: Api, log: Log, directory: Path
) -> None:
    password = f"open sesame {MARK}"
    answer = api.post(SECRETS, {"metadata": {"name": "s"}, "stringData": {"password": password}})
    found = last_event(log, answer)
    assert found["objectRef"]["name"] == "s"
    assert not {"requestObject", "responseObject"} & found.keys()
    account = "/api/v1/namespaces/default/serviceaccounts"
    api.post(account, {"metadata": {"name": "robot"}}).ok()
    token = api.post(f"{account}/robot/token", {"spec": {}}).ok()["status"]["token"]
    last_event(log, api.get(SECRETS))
    recorded = (directory / "audit.log").read_text()
    assert "open sesame" not in recorded
    assert "b3BlbiBzZXNhbWU" not in recorded  # the same in base64
    assert token not in recorded


def test_at_level_request_what_was_answered_is_not_recorded(api: Api, log: Log) -> None:
    service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    found = last_event(log, api.post("/api/v1/namespaces/default/services", service))
    assert found["requestObject"] == service
    assert "responseObject" not in found


def test_managed_fields_are_left_out_where_the_policy_says_so(api: Api, log: Log) -> None:
    path = "/api/v1/namespaces/default/endpoints"
    answer = api.post(path, {"metadata": {"name": "e", "labels": {"a": "b"}}})
    assert "managedFields" in answer.ok()["metadata"]
    found = last_event(log, answer)
    assert "managedFields" not in found["responseObject"]["metadata"]
    listed = last_event(log, api.get(path))["responseObject"]["items"]
    assert [each["metadata"].get("managedFields") for each in listed] == [None] * len(listed)


# What the client accepts, and the kind of what is recorded: JSON, whatever the client gets.
ACCEPTED: Final = {
    "application/json": "ConfigMapList",
    "application/yaml": "ConfigMapList",
    "application/vnd.kubernetes.protobuf": "ConfigMapList",
    "application/json;as=Table;v=v1;g=meta.k8s.io": "Table",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io": (
        "PartialObjectMetadataList"
    ),
}


@pytest.mark.parametrize(("accept", "kind"), ACCEPTED.items(), ids=list(ACCEPTED))
def test_lists_are_recorded_in_json(api: Api, log: Log, accept: str, kind: str) -> None:
    path = f"{CONFIGMAPS}?resourceVersion=0"
    answer = api.get(path, headers={"Accept": accept, "Accept-Encoding": "gzip"})
    found = last_event(log, answer)["responseObject"]
    assert found["kind"] == kind
    if accept == "application/json":
        assert found == answer.json


BODIES: Final = {
    "YAML": ("application/yaml", b"metadata:\n  name: from-yaml\ndata:\n  a: 'b'\n"),
    "JSON": ("application/json", b'{"metadata": {"name": "from-json"}, "data": {"a": "b"}}'),
}


@pytest.mark.parametrize(("media_type", "body"), BODIES.values(), ids=BODIES)
def test_what_a_client_sends_is_recorded_in_json(api: Api, log: Log, media_type: str, body: bytes) -> None:
    found = last_event(log, api.post(CONFIGMAPS, body, type=media_type))["requestObject"]
    assert found["data"] == {"a": "b"}


PATCHES: Final = {
    "merge": (b' {"data":\n{"y": "2"}}', {"data": {"y": "2"}}),
    "json-patch": (
        b'[{"op": "add", "path": "/data", "value": {}}]',
        [{"op": "add", "path": "/data", "value": {}}],
    ),
    "application/apply-patch+yaml": (
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: patched}\n",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "patched"}},
    ),
}


@pytest.mark.parametrize(("media_type", "case"), PATCHES.items(), ids=list(PATCHES))
def test_patches_are_recorded_as_they_are(
    api: Api, log: Log, media_type: str, case: tuple[bytes, Any]
) -> None:
    api.post(CONFIGMAPS, {"metadata": {"name": "patched"}})
    body, expected = case
    for _ in ("applied", "applied without effect"):
        answer = api.send("PATCH", f"{CONFIGMAPS}/patched?fieldManager=m", body, type=media_type)
        assert answer.status == 200, answer.body
        found = last_event(log, answer)
        assert found["verb"] == "patch"
        assert found["requestObject"] == expected
        assert found["responseObject"] == answer.json


def test_a_delete_records_its_options_and_the_status_that_it_answers(api: Api, log: Log) -> None:
    api.post(CONFIGMAPS, {"metadata": {"name": "deleted"}}).ok()
    answer = api.send("DELETE", f"{CONFIGMAPS}/deleted", {"gracePeriodSeconds": 0})
    found = last_event(log, answer)
    assert found["requestObject"] == {"gracePeriodSeconds": 0}
    assert found["responseObject"] == answer.json
    assert found["responseStatus"]["status"] == "Success"
    assert found["responseStatus"]["code"] == 200


def test_a_watch_has_an_event_when_its_answer_begins(api: Api, log: Log) -> None:
    found = last_event(log, api.get(f"{CONFIGMAPS}?watch=1&timeoutSeconds=1"), LONG)
    assert found["verb"] == "watch"
    assert "responseObject" not in found
    # It took longer than half a second.
    assert {"apiserver.latency.k8s.io/total", "apiserver.latency.k8s.io/authentication"} <= {
        *found["annotations"]
    }


def test_a_client_that_goes_away_ends_the_chain(server: ServerProcess, api: Api, log: Log) -> None:
    with raw_connection(server) as connection:
        connection.sendall(
            f"GET {CONFIGMAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAudit-Id: gone\r\n"
            "Authorization: Bearer admin-token\r\n\r\n".encode()
        )
        until(
            lambda: [each["stage"] for each in log.all() if each["auditID"] == "gone"], lambda s: len(s) == 2
        )
    assert [each["stage"] for each in log.of("gone")] == LONG


def test_a_request_that_is_malformed_is_recorded(server: ServerProcess, log: Log) -> None:
    """It is refused before it is asked who makes it, and recorded as what nobody has been identified for."""
    for method, target in (
        ("GET", "/%ff"),
        ("GET", "/api/v1/pods?labelSelector=%ff"),
        ("CONNECT", "http://@]"),
    ):
        with raw_connection(server) as connection:
            connection.sendall(
                f"{method} {target} HTTP/1.1\r\nHost: x\r\nAudit-Id: {target}\r\n\r\n".encode()
            )
            assert connection.recv(12) == b"HTTP/1.1 400"
        (event,) = until(lambda: [each for each in log.all() if each["auditID"] == target], bool)  # noqa: B023
        assert (event["stage"], event["requestURI"]) == ("ResponseStarted", target)
        assert event["verb"] == method.lower()
        assert (event["user"], event["responseStatus"]["code"]) == ({}, 400)


def test_a_malformed_request_does_not_change_how_others_for_its_uri_are_recorded(
    server: ServerProcess, log: Log
) -> None:
    """Nobody is identified for both, but only one of them is about an object. Nor does the other order."""
    for number, versions in enumerate(("21", "12")):
        path = f"{SECRETS}/asked-for-by-nobody-{number}"
        for version in versions:
            audit_id = f"{path}-{version}"
            head = f"GET {path} HTTP/{version}.{2 - int(version)}\r\nHost: x\r\nAudit-Id: {audit_id}\r\n"
            with raw_connection(server) as connection:
                connection.sendall(f"{head}Authorization: Bearer nobody\r\n\r\n".encode())
                assert connection.recv(12) == (b"HTTP/1.1 401" if version == "1" else b"HTTP/1.1 400")
            (event,) = until(lambda: [each for each in log.all() if each["auditID"] == audit_id], bool)  # noqa: B023
            assert (event["verb"], event["requestURI"]) == ("get", path)
            found = event.get("objectRef", {}).get("name")
            assert found == (f"asked-for-by-nobody-{number}" if version == "1" else None)


def test_a_request_that_is_forbidden(api: Api, log: Log) -> None:
    answer = api.get(SECRETS, headers={"Impersonate-User": "bob", "Impersonate-Group": "dev"})
    found = last_event(log, answer)
    assert answer.status == 403
    assert found["user"]["username"] == "admin"
    assert found["impersonatedUser"]["username"] == "bob"
    assert "dev" in found["impersonatedUser"]["groups"]
    assert found["authenticationMetadata"] == {"impersonationConstraint": "impersonate:user-info"}
    assert found["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert found["responseStatus"]["reason"] == "Forbidden"
    assert found["responseStatus"]["message"] == answer.message


def test_an_impersonation_that_is_forbidden_has_no_impersonated_user(api: Api, log: Log) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    api.post(accounts, {"metadata": {"name": "impersonator"}}).ok()
    token = api.post(f"{accounts}/impersonator/token", {"spec": {}}).ok()
    other = api.as_caller(token["status"]["token"])
    answer = other.get(SECRETS, headers={"Impersonate-User": "bob"})
    other.close()
    found = last_event(log, answer)
    assert answer.status == 403
    assert "impersonatedUser" not in found


def test_a_request_of_nobody_has_one_event(api: Api, log: Log) -> None:
    nobody = api.as_caller("wrong")
    answer = nobody.get(CONFIGMAPS)
    nobody.close()
    assert answer.status == 401
    found = until(
        lambda: [each for each in log.all() if each["auditID"] == answer.headers["audit-id"]],
        lambda events: bool(events),
    )
    assert [each["stage"] for each in found] == ["ResponseStarted"]
    assert found[0]["user"] == {}
    assert found[0]["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


# Method, path, body and the status of requests that fail early.
FAILURES: Final[dict[str, tuple[str, str, Any, int]]] = {
    "no such object": ("GET", f"{CONFIGMAPS}/none", None, 404),
    "no such path": ("GET", "/no/such/path", None, 404),
    "no such resource": ("GET", "/api/v1/namespaces/default/unknowns", None, 404),
    "no such method": ("PUT", CONFIGMAPS, {}, 405),
    "not JSON": ("POST", CONFIGMAPS, b"{", 400),
    "not an object": ("POST", CONFIGMAPS, b"[1]", 400),
    "not valid": ("POST", CONFIGMAPS, {"metadata": {"name": "A B"}}, 422),
    "too large": ("POST", CONFIGMAPS, b" " * (3 * 1024 * 1024 + 1), 413),
    "a timeout that is none": ("GET", f"{CONFIGMAPS}?timeout=never", None, 400),
    "not a patch": ("PATCH", f"{CONFIGMAPS}/none", b"x", 415),
}


@pytest.mark.parametrize(("method", "path", "body", "code"), FAILURES.values(), ids=FAILURES)
def test_requests_that_fail_have_a_whole_chain(
    api: Api, log: Log, method: str, path: str, body: Any, code: int
) -> None:
    answer = api.send(method, path, body)
    found = last_event(log, answer)
    assert answer.status == code
    assert found["responseStatus"]["code"] == code
    if code in (400, 415):
        assert "requestObject" not in found  # It cannot be read.


def test_the_audit_id_of_a_client_is_kept_and_answered(api: Api, log: Log) -> None:
    answer = api.get(CONFIGMAPS, headers={"Audit-Id": 'mine: "\\'})
    assert answer.headers["audit-id"] == 'mine: "\\'
    last_event(log, answer)


def test_what_the_policy_leaves_out_is_not_recorded(api: Api, log: Log) -> None:
    answer = api.get("/livez")
    last_event(log, api.get("/version"))
    assert not [each for each in log.all() if each["auditID"] == answer.headers["audit-id"]]


def test_s06_a_deprecated_version_is_marked(api: Api, log: Log) -> None:
    found = last_event(log, api.get("/api/v1/namespaces/default/endpoints"))
    assert found["annotations"]["k8s.io/deprecated"] == "true"


def test_a_token_that_is_issued_is_named(api: Api, log: Log) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    api.post(accounts, {"metadata": {"name": "named"}}).ok()
    answer = api.post(f"{accounts}/named/token", {"spec": {}})
    claims = answer.ok()["status"]["token"].split(".")[1]
    token_id = orjson.loads(base64.urlsafe_b64decode(claims + "=="))["jti"]
    found = last_event(log, answer)
    assert found["annotations"]["authentication.kubernetes.io/issued-credential-id"] == f"JTI={token_id}"


def test_what_pod_security_enforces_and_what_it_only_records(api: Api, log: Log) -> None:
    labels = {"pod-security.kubernetes.io/audit": "baseline"}
    api.post("/api/v1/namespaces", {"metadata": {"name": "audited", "labels": labels}}).ok()
    answer = api.post("/api/v1/namespaces/audited/pods?dryRun=All", pod(hostNetwork=True))
    assert answer.status == 201, answer.body
    found = last_event(log, answer)["annotations"]
    assert found["pod-security.kubernetes.io/enforce-policy"] == "privileged:latest"
    assert found["pod-security.kubernetes.io/audit-violations"].startswith(
        'would violate PodSecurity "baseline:latest": host namespaces'
    )
    other = last_event(log, api.post("/api/v1/namespaces/default/pods?dryRun=All", pod()))["annotations"]
    assert other["pod-security.kubernetes.io/enforce-policy"] == "privileged:latest"
    assert "pod-security.kubernetes.io/audit-violations" not in other


POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


def test_what_policies_record(api: Api, log: Log) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    matches = {"resourceRules": [rule], "objectSelector": {"matchLabels": {"checked": "yes"}}}
    spec = {
        "matchConstraints": matches,
        "validations": [
            {"expression": "true"},
            {"expression": "has(object.data)", "message": "data is required"},
        ],
        "auditAnnotations": [
            {"key": "name", "valueExpression": "'is ' + object.metadata.name"},
            {"key": "nothing", "valueExpression": "null"},
        ],
    }
    api.post(POLICIES, {"metadata": {"name": "p.example.com"}, "spec": spec}).ok()
    binding = {"policyName": "p.example.com", "validationActions": ["Warn", "Audit"]}
    api.post(
        f"{POLICIES[: -len('policies')]}policybindings", {"metadata": {"name": "b"}, "spec": binding}
    ).ok()
    checked = {"metadata": {"name": "checked", "labels": {"checked": "yes"}}}
    answer = until(
        lambda: api.post(f"{CONFIGMAPS}?dryRun=All", checked), lambda found: bool(found.warnings), "a warning"
    )
    found = last_event(log, answer)["annotations"]
    assert found["p.example.com/name"] == "is checked"
    assert "p.example.com/nothing" not in found
    assert orjson.loads(found["validation.policy.admission.k8s.io/validation_failure"]) == [
        {
            "message": "data is required",
            "policy": "p.example.com",
            "binding": "b",
            "expressionIndex": 1,
            "validationActions": ["Warn", "Audit"],
        }
    ]


class Hooks(WebhookServer):
    """Adds a label at /mutate, and annotations of its own; answers nothing elsewhere."""

    async def answer(self, path: str, review: dict[str, Any]) -> dict[str, Any] | bytes:
        if not path.startswith("/mutate"):
            return b""
        patch = base64.b64encode(b'[{"op":"add",\n"path":"/metadata/labels/new","value":"1"}]').decode()
        response = {
            "uid": review["request"]["uid"],
            "allowed": True,
            "patch": patch,
            "patchType": "JSONPatch",
            "auditAnnotations": {"note": "seen", "bad key!": "x"},
        }
        return {**{key: review[key] for key in ("kind", "apiVersion")}, "response": response}


def test_what_webhooks_have_done(api: Api, log: Log, directory: Path) -> None:
    with Hooks(directory / "hooks") as hooks:

        def webhook(name: str, path: str, **more: Any) -> dict[str, Any]:
            url = f"https://127.0.0.1:{hooks.port}{path}"
            rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
            return {
                "name": name,
                "clientConfig": {"url": url, "caBundle": hooks.ca_bundle},
                "rules": [{**rule, "resources": ["configmaps"]}],
                "objectSelector": {"matchLabels": {"hooked": "yes"}},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                **more,
            }

        group = "/apis/admissionregistration.k8s.io/v1"
        mutating = [
            webhook("m.example.com", "/mutate"),
            webhook("n.example.com", "/x", failurePolicy="Ignore"),
        ]
        checking = [webhook("v.example.com", "/y", failurePolicy="Ignore")]
        for kind, webhooks in (("mutating", mutating), ("validating", checking)):
            path = f"{group}/{kind}webhookconfigurations"
            api.post(path, {"metadata": {"name": "c"}, "webhooks": webhooks}).ok()
        hooked = {"metadata": {"name": "hooked", "labels": {"hooked": "yes"}}}
        answer = until(
            lambda: api.post(f"{CONFIGMAPS}?dryRun=All", hooked),
            lambda found: "new" in found.ok()["metadata"]["labels"],
            "the webhooks are called",
        )
        found = last_event(log, answer)["annotations"]
        for kind in ("mutating", "validating"):
            api.send("DELETE", f"{group}/{kind}webhookconfigurations/c").ok()
    mutation, patch = (f"{each}.webhook.admission.k8s.io/round_0_index_" for each in ("mutation", "patch"))
    first = {"configuration": "c", "webhook": "m.example.com"}
    assert orjson.loads(found[f"{mutation}0"]) == {**first, "mutated": True}
    assert orjson.loads(found[f"{mutation}1"])["mutated"] is False
    operation = {"op": "add", "path": "/metadata/labels/new", "value": "1"}
    assert orjson.loads(found[f"{patch}0"]) == {**first, "patch": [operation], "patchType": "JSONPatch"}
    assert found["m.example.com/note"] == "seen"
    assert found[f"failed-open.{mutation}1"] == "n.example.com"
    assert found["failed-open.validating.webhook.admission.k8s.io/round_0_index_0"] == "v.example.com"
    assert not [key for key in found if "bad key" in key]


def test_metrics_count_requests_by_level_and_events(api: Api) -> None:
    for path in ("/livez", CONFIGMAPS):
        assert api.get(path).status == 200
    text = metrics_of(api)
    for line in (
        r"apiserver_audit_event_total \d+",
        r'apiserver_audit_level_total\{level="None"\} \d+',
        r'apiserver_audit_level_total\{level="RequestResponse"\} \d+',
        r"apiserver_audit_requests_rejected_total 0",
        r'apiserver_audit_error_total\{plugin="log"\} 0',
    ):
        assert re.search(f"^{line}$", text, re.MULTILINE)


# ---- starts, and ends


def test_a_file_that_cannot_be_written_prevents_the_start(directory: Path) -> None:
    flags = (audit_flags(directory, POLICY)[0], f"--audit-log-path={directory}")
    error = ServerProcess(directory / "refused", *flags).refusal().stderr
    assert error.splitlines()[-1] == (f"apiserver: --audit-log-path: cannot open {directory}: Is a directory")


def test_unknown_fields_of_a_policy_are_ignored_with_a_warning(tmp_path: Path) -> None:
    rule = '{level: Metadata, resource: [pods], resources: [{group: "*", resources: [configmaps]}]}'
    flags = audit_flags(tmp_path, f"{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{rule}]}}")
    with ServerProcess(tmp_path / "data", *flags) as server, Api(server) as api:
        answer = api.get(CONFIGMAPS)
        assert Log(tmp_path / "audit.log").of(answer.headers["audit-id"])[-1]["level"] == "Metadata"
        assert server.stop() == 0
    warning = "Audit policy contains errors, falling back to lenient decoding: strict decoding error: "
    assert f'{warning}unknown field "rules[0].resource"'.replace("\\", "") in server.stderr.replace("\\", "")


# The mode, and whether a request passes whose first event cannot be written.
FULL_DISKS: Final = [
    pytest.param("batch", True, marks=pytest.mark.slow),
    pytest.param("blocking", True, marks=pytest.mark.slow),
    ("blocking-strict", False),
]


@pytest.mark.parametrize(("mode", "passes"), FULL_DISKS)
def test_a_full_disk_fails_requests_only_where_that_is_wanted(
    directory: Path, mode: str, passes: bool
) -> None:
    policy = directory / "policy.yaml"
    policy.write_text(POLICY)
    flags = (f"--audit-policy-file={policy}", "--audit-log-path=/dev/full", f"--audit-log-mode={mode}")
    # Probes are not recorded: the server starts.
    with ServerProcess(directory / mode, *flags) as server, Api(server) as api:
        answer = api.post(CONFIGMAPS, {"metadata": {"name": "a"}})
        if passes:
            assert answer.status == 201
            lost = partial(metric, api, "apiserver_audit_error_total", plugin="log")
            until(lost, what="the loss is counted")
        else:
            assert answer.status == 500
            assert "failed to store audit event" in answer.message
        server.stop()
        said = [line for line in server.stderr.splitlines() if "audit plugin log has lost" in line]
        assert len(said) == 1
        assert "/dev/full: No space left on device" in said[0]


class Collector(WebhookServer):
    """Takes events. lists: those that it was sent."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.lists: list[dict[str, Any]] = []

    async def answer(self, path: str, review: dict[str, Any]) -> bytes:
        assert path == "/events?key=1"
        self.lists.append(review)
        return b"thank you"


@pytest.mark.slow
def test_events_are_sent_to_a_server_in_batches(directory: Path) -> None:
    policy, kubeconfig = directory / "policy.yaml", directory / "collector.kubeconfig"
    policy.write_text(POLICY)
    with Collector(directory / "collector") as collector:
        kubeconfig_of_webhook(kubeconfig, collector, below="events?key=1", token="shown")
        flags = (f"--audit-policy-file={policy}", f"--audit-webhook-config-file={kubeconfig}")
        with ServerProcess(directory / "sending", *flags) as server, Api(server) as api:
            answer = api.post(CONFIGMAPS, {"metadata": {"name": "sent"}})
            # Half a minute before the batch is due.
            assert server.stop() == 0
        assert collector.headers["Authorization"] == "Bearer shown"
    assert {(each["kind"], each["apiVersion"]) for each in collector.lists} == {
        ("EventList", "audit.k8s.io/v1")
    }
    sent = [
        each
        for events in collector.lists
        for each in events["items"]
        if each["auditID"] == answer.headers["audit-id"]
    ]
    assert [each["stage"] for each in sent] == COMPLETE
    assert sent[-1]["responseObject"] == answer.json


def test_what_was_recorded_in_batches_is_written_when_the_server_stops(directory: Path) -> None:
    policy, path = directory / "policy.yaml", directory / "batches.log"
    policy.write_text(POLICY)
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={path}", "--audit-log-mode=batch")
    slow = ("--audit-log-batch-max-size=100000", "--audit-log-batch-max-wait=1h")
    with ServerProcess(directory / "batches", *flags, *slow) as server, Api(server) as api:
        answer = api.get(CONFIGMAPS)
        assert path.read_bytes() == b""
        assert server.stop() == 0
    assert len(Log(path).of(answer.headers["audit-id"])) == 2
