"""Jobs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver.catalogue.batch.jobs.specs import validate_job_spec, warn_job_spec
from apiserver.catalogue.common import workloads
from apiserver.field_errors import invalid, required
from apiserver.meta import names
from apiserver.registry.strategy import keep_status
from apiserver.schema.compile import Default
from apiserver.validation.checks import Errors, at, immutable, label_selector, selects, setting
from apiserver.vocabulary import Document

_BATCH: Final = "io.k8s.api.batch.v1."

INT32_MAX: Final = (1 << 31) - 1

# ---- defaults


def _complete_job(job: Document) -> None:
    spec, meta = job["spec"], job["metadata"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    has_failure_policy = "podFailurePolicy" in spec
    setting(
        parallelism=1,
        backoffLimit=INT32_MAX if "backoffLimitPerIndex" in spec else 6,
        completionMode="NonIndexed",
        suspend=False,
        manualSelector=False,
        podReplacementPolicy="Failed" if has_failure_policy else "TerminatingOrFailed",
    )(spec)
    labels = at(spec, "template", "metadata", "labels")
    if labels and not meta.get("labels"):
        # The same object: labels that the pods get for their selector are the job's then, too.
        meta["labels"] = labels


DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType(
    {
        f"{_BATCH}Job": _complete_job,
        f"{_BATCH}PodFailurePolicyOnPodConditionsPattern": setting(status="True"),
    }
)

# ---- what the server sets

CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
_OLD_CONTROLLER_UID: Final = "controller-uid"
_OLD_JOB_NAME: Final = "job-name"


def prepare_job_create(job: Document) -> None:
    job["status"] = {}
    spec, meta = job["spec"], job["metadata"]
    template_meta = spec["template"].setdefault("metadata", {})
    has_own_labels = bool(meta.get("labels")) and meta["labels"] is not template_meta.get("labels")
    if not spec.get("manualSelector"):
        _generate_selector(spec, template_meta, name=meta.get("name", ""), uid=meta["uid"])
    if not has_own_labels and template_meta.get("labels"):
        meta["labels"] = dict(template_meta["labels"])


def _generate_selector(spec: Document, template_meta: Document, *, name: str, uid: str) -> None:
    """Labels that no other job's pods have. What the client has set stands, and is checked later."""
    generated = {_OLD_JOB_NAME: name, JOB_NAME: name, _OLD_CONTROLLER_UID: uid, CONTROLLER_UID: uid}
    template_meta["labels"] = generated | (template_meta.get("labels") or {})
    selector = spec.setdefault("selector", {})
    selector["matchLabels"] = {CONTROLLER_UID: uid} | (selector.get("matchLabels") or {})


def prepare_job_update(new: Document, old: Document) -> None:
    keep_status(new, old)
    if "labels" in new["metadata"]:
        new["metadata"]["labels"] = dict(new["metadata"]["labels"])


# ---- jobs


def validate_job(job: Document) -> Errors:
    meta, spec = job["metadata"], job["spec"]
    errors = validate_job_spec("spec", spec)
    selector = spec.get("selector")
    if selector is None:
        errors.append(required("spec.selector"))
    malformed = label_selector("spec.selector", selector)
    errors += malformed or workloads.validate_selector_matches_template(spec)
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        host = f"{meta.get('name', '')}-{completions - 1}"
        if names.dns_label(host):
            text = f"will not able to create pod with invalid DNS label: {host}"
            errors.append(invalid("metadata.name", meta.get("name", ""), text))
    return errors


def validate_job_create(job: Document) -> Errors:
    return _validate_generated_selector(job, has_prefixed_labels=True)


def _validate_generated_selector(job: Document, *, has_prefixed_labels: bool) -> Errors:
    meta, spec = job["metadata"], job["spec"]
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return []
    expected = {_OLD_CONTROLLER_UID: meta["uid"], _OLD_JOB_NAME: meta.get("name", "")}
    if has_prefixed_labels:
        expected |= {CONTROLLER_UID: meta["uid"], JOB_NAME: meta.get("name", "")}
    labels = at(spec, "template", "metadata", "labels") or {}
    errors: Errors = []
    for key, value in expected.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            errors.append(required(path, f"must be '{value}'"))
        elif labels[key] != value:
            errors.append(invalid(path, labels, f"must be '{value}'"))
    if not label_selector("spec.selector", selector) and not selects(selector, expected):
        errors.append(invalid("spec.selector", selector, "`selector` not auto-generated"))
    return errors


def validate_job_update(new: Document, old: Document) -> Errors:
    spec, before = new["spec"], old["spec"]
    old_labels = at(before, "template", "metadata", "labels") or {}
    has_prefixed_labels = CONTROLLER_UID in old_labels and JOB_NAME in old_labels
    errors = _validate_generated_selector(new, has_prefixed_labels=has_prefixed_labels)
    errors += _validate_completions_update(spec, before)
    errors += workloads.validate_selector_update(new, old)
    errors += _validate_template_update(new, old)
    for field in (
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ):
        errors += immutable(f"spec.{field}", spec.get(field), before.get(field))
    return errors


def _validate_completions_update(spec: Document, before: Document) -> Errors:
    """Indexed jobs may grow and shrink, together with their parallelism."""
    path, completions = "spec.completions", spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        return immutable(path, completions, before.get("completions"))
    if completions in (None, before.get("completions"), spec.get("parallelism")):
        return []
    return [invalid(path, completions, "can only be modified in tandem with spec.parallelism")]


_SCHEDULING: Final = ("nodeSelector", "tolerations", "schedulingGates")


def _validate_template_update(new: Document, old: Document) -> Errors:
    """A job that is suspended and has never run may still be told where to run."""
    template, before = new["spec"]["template"], old["spec"]["template"]
    if old["spec"].get("suspend") and not at(old, "status", "startTime"):
        template, before = _without_scheduling(template), _without_scheduling(before)
    if template == before:
        return []
    return immutable("spec.template", new["spec"]["template"], old["spec"]["template"])


def _without_scheduling(template: Document) -> Document:
    template = copy.deepcopy(template)
    for field in ("labels", "annotations"):
        (template.get("metadata") or {}).pop(field, None)
    spec = template.get("spec") or {}
    for field in _SCHEDULING:
        spec.pop(field, None)
    if "affinity" in spec:
        spec["affinity"].pop("nodeAffinity", None)
        if not spec["affinity"]:
            del spec["affinity"]
    return template


# ---- warnings


def warn_job(new: Document, old: Document | None) -> list[str]:
    warnings = workloads.warn_name(new) if old is None else []
    return warnings + warn_job_spec("spec", new["spec"])
