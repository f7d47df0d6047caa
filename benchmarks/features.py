"""What a server costs that is set up for production. `make bench ARGS=features`.

Each line compares it with the same server without the feature, and allows what the feature may take.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from benchmarks import load
from benchmarks.bodies import config_map
from benchmarks.processes import Measured
from benchmarks.report import Result
from benchmarks.workloads import (
    CONFIGMAPS,
    LoadTarget,
    RequestsFor,
    Settings,
    compare,
    create,
    fill,
    make_namespace,
    posts,
    repeatedly,
    server,
)

NAMESPACE: Final = "bench"
CREATED: Final = "created"
TARGET: Final = CONFIGMAPS.format(NAMESPACE) + "/c-000001?resourceVersion=0"
BINDINGS: Final = 10_000
RBAC: Final = "rbac.authorization.k8s.io"
ROLES: Final = f"/apis/{RBAC}/v1/clusterroles"
ROLE_BINDINGS: Final = f"/apis/{RBAC}/v1/namespaces/{NAMESPACE}/rolebindings"
METADATA_LEVEL: Final = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
# What a feature may leave of the rate without it.
AUDIT_RATIO: Final = 0.85
FAIRNESS_RATIO: Final = 0.95
ACCESS_RATIO: Final = 0.85
ENCRYPTED_WRITE_RATIO: Final = 0.8
ENCRYPTED_READ_RATIO: Final = 0.97
# Of requests that are not sampled; two servers that are set up equally differ by as much.
UNSAMPLED_RATIO: Final = 0.97


async def features(settings: Settings) -> AsyncIterator[Result]:
    with server(settings) as (_, plain):
        await fill(plain.url, NAMESPACE, 10)
        for mode in ("batch", "blocking"):
            with server(settings, *_audit_flags(settings.directory, mode)) as (_, audited):
                await fill(audited.url, NAMESPACE, 10)
                yield await _gets(settings, f"GET, audit of metadata, {mode}", AUDIT_RATIO, audited, plain)
        with server(settings, "--enable-priority-and-fairness=false") as (_, unfair):
            await fill(unfair.url, NAMESPACE, 10)
            yield await _gets(settings, "GET, priority and fairness", FAIRNESS_RATIO, plain, unfair)
        with server(settings, _tracing_flag(settings.directory)) as (_, traced):
            await fill(traced.url, NAMESPACE, 10)
            yield await _gets(settings, "GET, traces, not sampled", UNSAMPLED_RATIO, traced, plain)
        with server(settings, *_encryption_flags(settings.directory)) as (_, encrypted):
            await fill(encrypted.url, NAMESPACE, 10)
            yield await _gets(settings, "GET, encryption at rest", ENCRYPTED_READ_RATIO, encrypted, plain)
            for measured in (encrypted, plain):
                await make_namespace(measured.url, CREATED)
            yield await compare(
                settings,
                "create, encryption at rest",
                ENCRYPTED_WRITE_RATIO,
                LoadTarget(encrypted, _creates()),
                LoadTarget(plain, _creates()),
            )
    yield await _access(settings)


async def _access(settings: Settings) -> Result:
    """Gets of a user whom one of many bindings allows it, and where everybody is anonymous and may do all."""
    flags = ("--authorization-mode=AlwaysAllow", "--anonymous-auth=true")
    with server(settings) as (_, bound), server(settings, *flags) as (_, open_to_all):
        await fill(open_to_all.url, NAMESPACE, 10)
        await fill(bound.url, NAMESPACE, 10)
        await create(bound.url, ROLES, _role, 1)
        await create(bound.url, ROLE_BINDINGS, _binding, settings.at_most(BINDINGS))
        return await compare(
            settings,
            f"GET, user of one of {BINDINGS:,} role bindings",
            ACCESS_RATIO,
            LoadTarget(bound, _repeated("alice-token")),
            LoadTarget(open_to_all, _repeated("")),
        )


def _role(_: int) -> bytes:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    return json.dumps({"metadata": {"name": "reader"}, "rules": [rule]}).encode()


def _binding(number: int) -> bytes:
    """The first one is of the user who asks."""
    subject = {"apiGroup": RBAC, "kind": "User", "name": f"u-{number}" if number else "alice"}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "reader"}
    document = {"metadata": {"name": f"b-{number}"}, "roleRef": role, "subjects": [subject]}
    return json.dumps(document).encode()


async def _gets(settings: Settings, work: str, ratio: float, ours: Measured, without: Measured) -> Result:
    requests = repeatedly(TARGET)
    return await compare(settings, work, ratio, LoadTarget(ours, requests), LoadTarget(without, requests))


def _repeated(token: str) -> RequestsFor:
    request = load.request("GET", TARGET, token=token)
    return lambda for_s: load.repeated(request, for_s=for_s)


def _creates() -> RequestsFor:
    return posts(CONFIGMAPS.format(CREATED), config_map)


def _audit_flags(directory: Path, mode: str) -> tuple[str, ...]:
    policy = directory / "audit-policy.json"
    policy.write_text(json.dumps(METADATA_LEVEL))
    log = directory / f"audit-{mode}.log"
    return f"--audit-policy-file={policy}", f"--audit-log-path={log}", f"--audit-log-mode={mode}"


def _tracing_flag(directory: Path) -> str:
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "TracingConfiguration",
        "endpoint": "127.0.0.1:1",
        "samplingRatePerMillion": 0,
    }
    path = directory / "tracing.json"
    path.write_text(json.dumps(configuration))
    return f"--tracing-config-file={path}"


def _encryption_flags(directory: Path) -> tuple[str, ...]:
    key = {"name": "one", "secret": base64.b64encode(bytes(range(32))).decode()}
    providers = [{"aesgcm": {"keys": [key]}}, {"identity": {}}]
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["configmaps"], "providers": providers}],
    }
    path = directory / "encryption.json"
    path.write_text(json.dumps(configuration))
    path.chmod(0o600)
    return (f"--encryption-provider-config={path}",)
