"""Pods run as a service account that exists, and find its token in all of their containers.

Source: kubernetes, plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from typing import Any, Final

from apiserver.admission.chain import Operation, Plugin, Write
from apiserver.admission.plugins.listers import Lister, refused
from apiserver.admission.plugins.pod_specs import CONTAINERS, MIRROR, PODS, containers
from apiserver.errors import Forbidden
from apiserver.meta import names
from apiserver.vocabulary import Document, GroupResource

DEFAULT: Final = "default"
# A new namespace may be without its default account for a moment: a controller makes it.
DEFAULT_ATTEMPTS: Final = 10
ATTEMPT_INTERVAL_S: Final = 0.15

_VOLUME: Final = "kube-api-access-"
_MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
# An hour and seven seconds: by these seconds it is known that nobody asked for a time.
_TOKEN_S: Final = 3607
_FILE_MODE: Final = 0o644
_ENFORCES: Final = "kubernetes.io/enforce-mountable-secrets"
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")


class ServiceAccount(Plugin):
    name = "ServiceAccount"

    def __init__(self, accounts: Lister) -> None:
        self._accounts = accounts

    def concerns(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        return resource == PODS and (
            (operation is Operation.CREATE and not subresource)
            or (operation is Operation.UPDATE and subresource == "ephemeralcontainers")
        )

    async def mutate(self, write: Write, new: Document, old: Document | None) -> None:
        if old is not None or self._accounts.served is None or _is_mirror(new):
            return
        spec = new["spec"]
        # The older field is the same one by another name.
        name = spec["serviceAccountName"] = spec["serviceAccount"] = spec.get("serviceAccountName") or DEFAULT
        account = await self._account(write, new, name)
        mounts = spec.get("automountServiceAccountToken")
        if mounts is None:
            mounts = account.get("automountServiceAccountToken")
        if mounts is not False:
            mount_token(spec, f"{_VOLUME}{_random_suffix()}")
        if not spec.get("imagePullSecrets") and (pulled_with := account.get("imagePullSecrets")):
            spec["imagePullSecrets"] = [{"name": each.get("name", "")} for each in pulled_with]

    async def validate(self, write: Write, new: Document | None, old: Document | None) -> None:
        if new is None or self._accounts.served is None:
            return
        spec = new["spec"]
        if old is None and _is_mirror(new):
            if problem := mirror_problem(spec):
                raise refused(write, new, problem)
            return
        name = spec.get("serviceAccountName")
        if not name:
            pod = f"{write.namespace}/{new['metadata'].get('name', '')}"
            raise refused(write, new, f"no service account specified for pod {pod}")
        account = await self._account(write, new, name)
        if (account["metadata"].get("annotations") or {}).get(_ENFORCES) in _TRUE:
            fields = ("ephemeralContainers",) if old is not None else ("initContainers", "containers")
            if problem := unmountable_secret(spec, account, *fields):
                raise refused(write, new, problem)

    async def _account(self, write: Write, pod: Document, name: str) -> Document:
        """Raises Forbidden."""
        account = await self._accounts.find(name, write.namespace)
        attempts = DEFAULT_ATTEMPTS if name == DEFAULT else 1
        while account is None and (attempts := attempts - 1):
            await asyncio.sleep(ATTEMPT_INTERVAL_S)
            account = await self._accounts.get_live_document(name, write.namespace)
        if account is None:
            raise self._missing(write, pod, name)
        return account

    def _missing(self, write: Write, pod: Document, name: str) -> Forbidden:
        account = f"{write.namespace}/{name}"
        return refused(
            write, pod, f'error looking up service account {account}: serviceaccount "{name}" not found'
        )


def mount_token(spec: Document, new_name: str) -> None:
    """The account's token in each container that has nothing in its place.

    new_name: of the volume, if there is none yet.
    """
    volumes = spec.get("volumes") or []
    there = next((v["name"] for v in volumes if v.get("name", "").startswith(_VOLUME)), None)
    mount = {"name": there or new_name, "readOnly": True, "mountPath": _MOUNT_PATH}
    is_needed = False
    for container in containers(spec, "initContainers", "containers"):
        mounts = container.get("volumeMounts") or []
        if not any(each.get("mountPath") == _MOUNT_PATH for each in mounts):
            container["volumeMounts"] = [*mounts, dict(mount)]
            is_needed = True
    if is_needed and there is None:
        spec["volumes"] = [*volumes, {"name": new_name, "projected": _token_volume()}]


def _token_volume() -> Document:
    ca = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_S, "path": "token"}},
            {"configMap": ca},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
        ],
        "defaultMode": _FILE_MODE,
    }


def _random_suffix() -> str:
    return "".join(secrets.choice(names.GENERATED_ALPHABET) for _ in range(names.GENERATED_SUFFIX_LENGTH))


# ---- secrets


def _is_mirror(pod: Document) -> bool:
    """A node runs it from a file of its own, and only shows it."""
    return MIRROR in (pod["metadata"].get("annotations") or {})


def mirror_problem(spec: Document) -> str | None:
    """What a mirror pod refers to and may not: the node that shows it could so get hold of it."""
    if spec.get("serviceAccountName"):
        return "a mirror pod may not reference service accounts"
    if any(_secrets(spec)):
        return "a mirror pod may not reference secrets"
    sources = [
        source
        for volume in spec.get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
    ]
    if any("serviceAccountToken" in source for source in sources):
        return "a mirror pod may not use ServiceAccountToken volume projections"
    return None


# Where volumes name secrets, beside `secret` and `projected`.
_VOLUME_SECRETS: Final = {
    "azureFile": "secretName",
    "cephfs": "secretRef",
    "cinder": "secretRef",
    "csi": "nodePublishSecretRef",
    "flexVolume": "secretRef",
    "iscsi": "secretRef",
    "rbd": "secretRef",
    "scaleIO": "secretRef",
    "storageos": "secretRef",
}


def _secrets(spec: Document) -> Iterator[Any]:
    """Whatever refers to a secret."""
    yield from spec.get("imagePullSecrets") or ()
    for container in containers(spec):
        for each in container.get("env") or ():
            yield (each.get("valueFrom") or {}).get("secretKeyRef")
        for each in container.get("envFrom") or ():
            yield each.get("secretRef")
    for volume in spec.get("volumes") or ():
        yield volume.get("secret")
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield source.get("secret")
        for kind, field in _VOLUME_SECRETS.items():
            yield (volume.get(kind) or {}).get(field)


def unmountable_secret(spec: Document, account: Document, *fields: str) -> str | None:
    """A secret that the pod uses and its account, which insists on that, does not name.

    fields: whose containers are looked at; what belongs to the pod is, if `containers` are among them.
    """
    name = account["metadata"]["name"]
    mountable = {each.get("name") for each in account.get("secrets") or ()}
    not_allowed = f"is not allowed because service account {name} does not reference that"
    if "containers" in fields:
        for volume in spec.get("volumes") or ():
            secret = (volume.get("secret") or {}).get("secretName")
            if secret is not None and secret not in mountable:
                return f'volume with secret.secretName="{secret}" {not_allowed} secret'
    for field in fields:
        for container in containers(spec, field):
            for variable in container.get("env") or ():
                reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
                if reference is not None and (secret := reference.get("name", "")) not in mountable:
                    return (
                        f"{CONTAINERS[field]} {container['name']} with envVar {variable['name']} referencing "
                        f'secret.secretName="{secret}" {not_allowed} secret'
                    )
    if "containers" in fields:
        pulled_with = {each.get("name") for each in account.get("imagePullSecrets") or ()}
        for index, each in enumerate(spec.get("imagePullSecrets") or ()):
            if (secret := each.get("name", "")) not in pulled_with:
                return f'imagePullSecrets[{index}].name="{secret}" {not_allowed} imagePullSecret'
    return None
