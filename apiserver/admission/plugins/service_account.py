"""Sets the service account of pods, which must exist, and mounts its token into their containers.

Source: kubernetes, plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, creates, updates
from apiserver.admission.listers import Lister, refused
from apiserver.admission.plugins.pod_specs import CONTAINERS, MIRROR, PODS, containers
from apiserver.auth.authz.node.references import secret_names
from apiserver.golang.booleans import parse_bool
from apiserver.golang.quoting import go_quote
from apiserver.meta import names
from apiserver.meta.errors import Forbidden
from apiserver.meta.vocabulary import Document

DEFAULT: Final = "default"
# A new namespace may be without its default account for a moment: a controller creates it.
DEFAULT_ATTEMPTS: Final = 10
ATTEMPT_INTERVAL_S: Final = 0.15

_VOLUME: Final = "kube-api-access-"
_MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
# An hour and seven seconds: the seconds show that the duration is the default.
_TOKEN_S: Final = 3607
_FILE_MODE: Final = 0o644
_ENFORCES: Final = "kubernetes.io/enforce-mountable-secrets"


class ServiceAccount(Plugin):
    name = "ServiceAccount"
    handled = creates(PODS) | updates(PODS, subresource="ephemeralcontainers")

    def __init__(self, accounts: Lister) -> None:
        self._accounts = accounts

    async def mutate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if old is not None or self._accounts.served is None:
            return
        spec = new["spec"]
        if _is_mirror(new):
            _check_mirror(attributes, new)
            return
        # `serviceAccount` is the older name of the field.
        name = spec["serviceAccountName"] = spec["serviceAccount"] = spec.get("serviceAccountName") or DEFAULT
        account = await self._account(attributes, new, name)
        mounts = spec.get("automountServiceAccountToken")
        if mounts is None:
            mounts = account.get("automountServiceAccountToken")
        if mounts is not False:
            mount_token(spec, f"{_VOLUME}{_random_suffix()}")
        if not spec.get("imagePullSecrets") and (pulled_with := account.get("imagePullSecrets")):
            spec["imagePullSecrets"] = [{"name": each.get("name", "")} for each in pulled_with]

    async def validate(self, attributes: AdmissionAttributes, new: Document, old: Document | None) -> None:
        if self._accounts.served is None:
            return
        spec = new["spec"]
        if old is None and _is_mirror(new):
            _check_mirror(attributes, new)
            return
        name = spec.get("serviceAccountName")
        if not name:
            pod = f"{attributes.namespace}/{new['metadata'].get('name', '')}"
            raise refused(attributes, new, f"no service account specified for pod {pod}")
        account = await self._account(attributes, new, name)
        if parse_bool((account["metadata"].get("annotations") or {}).get(_ENFORCES)):
            fields = ("ephemeralContainers",) if old is not None else ("initContainers", "containers")
            if problem := unmountable_secret(spec, account, *fields):
                raise refused(attributes, new, problem)

    async def _account(self, attributes: AdmissionAttributes, pod: Document, name: str) -> Document:
        """Returns the service account of a pod."""
        account = await self._accounts.get_document(name, attributes.namespace)
        attempts = DEFAULT_ATTEMPTS if name == DEFAULT else 1
        while account is None and (attempts := attempts - 1):
            await asyncio.sleep(ATTEMPT_INTERVAL_S)
            account = await self._accounts.get_live_document(name, attributes.namespace)
        if account is None:
            raise self._missing(attributes, pod, name)
        return account

    def _missing(self, attributes: AdmissionAttributes, pod: Document, name: str) -> Forbidden:
        cause = f'serviceaccount "{name}" not found'
        if problems := names.path_segment(name):
            # Kubernetes does not even ask for it.
            cause = f"invalid resource name {go_quote(name)}: [{' '.join(problems)}]"
        text = f"error looking up service account {attributes.namespace}/{name}: {cause}"
        return refused(attributes, pod, text)


def mount_token(spec: Document, new_name: str) -> None:
    """Mount the account's token into each container that mounts nothing at its path.

    new_name: the name of the volume, if it has to be added.
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
    """Whether a kubelet runs the pod from a file, and shows it in the API as a mirror pod."""
    return MIRROR in (pod["metadata"].get("annotations") or {})


def _check_mirror(attributes: AdmissionAttributes, pod: Document) -> None:
    """Check a mirror pod."""
    if problem := mirror_problem(pod["spec"]):
        raise refused(attributes, pod, problem)


def mirror_problem(spec: Document) -> str | None:
    """Returns the error in a mirror pod through which its node could read secrets."""
    if spec.get("serviceAccountName"):
        return "a mirror pod may not reference service accounts"
    if any(secret_names(spec)):
        return "a mirror pod may not reference secrets"
    sources = [
        source
        for volume in spec.get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
    ]
    if any(source.get("serviceAccountToken") is not None for source in sources):
        return "a mirror pod may not use ServiceAccountToken volume projections"
    return None


def unmountable_secret(spec: Document, account: Document, *fields: str) -> str | None:
    """Returns the error if the pod uses a secret that its account does not list, where this is enforced.

    fields: those whose containers are checked. With `containers`, volumes and pull secrets are checked, too.
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
