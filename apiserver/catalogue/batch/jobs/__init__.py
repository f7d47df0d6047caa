"""Jobs. Source: pkg/apis/batch/{v1,validation}, pkg/registry/batch/job/strategy.go.

`specs` checks the spec, also that of CronJobs' templates; `statuses` checks updates of the status.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final, NamedTuple

from apiserver.catalogue.batch.jobs.specs import validate_job_spec, warn_job_spec
from apiserver.catalogue.batch.jobs.statuses import StatusRules, held_conditions, validate_job_status_update
from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType, status_subresource
from apiserver.catalogue.common import workloads
from apiserver.catalogue.pod_specs.templates import POD_TEMPLATE_COLUMNS, with_template_warnings
from apiserver.catalogue.pod_specs.validation import PodSpecRules, rules_of
from apiserver.meta import names, table, timestamps
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns
from apiserver.meta.vocabulary import Document
from apiserver.registry.field_getters import field_text
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status, only_status
from apiserver.schema.validation.checks import immutable
from apiserver.schema.validation.defaults import setting, setting_empty
from apiserver.schema.validation.documents import at
from apiserver.schema.validation.label_selectors import label_selector, selects


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    rules = rules_of(gates)
    return BuiltinType(
        "batch",
        "v1",
        "jobs",
        "Job",
        categories=("all",),
        defaults={
            "Job": partial(_complete_job, gates.is_on("JobPodReplacementPolicy")),
            "PodFailurePolicyOnPodConditionsPattern": setting_empty(status="True"),
        },
        subresources=(
            status_subresource(
                partial(validate_job_status_update, StatusRules.of(gates)), prepare=prepare_status_update
            ),
        ),
        strategy=Strategy(
            prepare_create=prepare_job_create,
            validate_ratcheting=partial(validate_job, rules, JobRules.of(gates)),
            warn=with_template_warnings(
                rules, "spec", "template", warn=workloads.warn_name, warn_spec=warn_job_spec
            ),
            update=UpdateStrategy(prepare=prepare_job_update),
            has_generation=True,
            orphans_by_default=True,
            delete_warning=_ORPHANS_TEXT,
        ),
        columns=columns(
            Column("Status", _status, "The state of the job."),
            Column("Completions", _completions, "The numbers of succeeded pods and of required completions."),
            Column("Duration", _duration, "The duration of the job so far."),
            AGE,
            *POD_TEMPLATE_COLUMNS,
        ),
        selectable_fields={"status.successful": field_text("status", "succeeded", default="0")},
        field_refusal="field label {quoted} not supported for Job",
    )


# Jobs were deleted without their pods before there was a policy, and clients rely on it.
_ORPHANS_TEXT: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set propagationPolicy=Orphan to suppress this warning"
)
INT32_MAX: Final = (1 << 31) - 1

# ---- defaults


def _complete_job(has_replacement_policy: bool, job: Document) -> None:
    spec = job["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    if has_replacement_policy and spec.get("podReplacementPolicy") is None:
        spec["podReplacementPolicy"] = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    setting(
        parallelism=1,
        backoffLimit=INT32_MAX if "backoffLimitPerIndex" in spec else 6,
        completionMode="NonIndexed",
        suspend=False,
        manualSelector=False,
    )(spec)
    _default_labels(job)


def _default_labels(job: Document) -> None:
    labels = at(job["spec"], "template", "metadata", "labels")
    if labels and not job["metadata"].get("labels"):
        # The same object: labels that the pods get for their selector are the job's then, too.
        job["metadata"]["labels"] = labels


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
    """Sets labels and a selector that no other job has. Values of the client are kept, and checked."""
    generated = {_OLD_JOB_NAME: name, JOB_NAME: name, _OLD_CONTROLLER_UID: uid, CONTROLLER_UID: uid}
    template_meta["labels"] = generated | (template_meta.get("labels") or {})
    selector = spec.setdefault("selector", {})
    selector["matchLabels"] = {CONTROLLER_UID: uid} | (selector.get("matchLabels") or {})


def prepare_job_update(new: Document, old: Document) -> None:
    keep_status(new, old)
    _copy_labels(new["metadata"])


def prepare_status_update(new: Document, old: Document) -> None:
    only_status(new, old)
    _default_labels(new)
    _copy_labels(new["metadata"])


def _copy_labels(meta: Document) -> None:
    """Replaces labels that the template may share by a copy."""
    if "labels" in meta:
        meta["labels"] = dict(meta["labels"])


# ---- jobs


class JobRules(NamedTuple):
    """The allowed changes to the template of a suspended job without running pods, even after its start.

    has_free_resources: whether resources of containers may change. has_free_scheduling: whether scheduling
    may change; without it only before the start.
    """

    has_free_resources: bool
    has_free_scheduling: bool

    @classmethod
    def of(cls, gates: FeatureGates) -> JobRules:
        return cls(
            gates.is_on("MutablePodResourcesForSuspendedJobs"),
            gates.is_on("MutableSchedulingDirectivesForSuspendedJobs"),
        )


def validate_job(pods: PodSpecRules, rules: JobRules, job: Document, old: Document | None) -> Errors:
    spec, before = job["spec"], (old or {}).get("spec") or {}
    has_prefixed_labels = True
    if old is not None:
        old_labels = at(before, "template", "metadata", "labels") or {}
        has_prefixed_labels = CONTROLLER_UID in old_labels and JOB_NAME in old_labels
    errors = _validate_generated_selector(job, has_prefixed_labels=has_prefixed_labels)
    of_spec = _validate_spec(pods, spec, before)
    errors += of_spec + _validate_hosts(job["metadata"].get("name", ""), spec)
    if old is None:
        return errors
    # Kubernetes checks the spec once more with an update.
    errors += of_spec + _validate_completions_update(spec, before)
    errors += workloads.validate_selector_update(job, old)
    errors += _validate_template_update(rules, spec, old)
    for field in _IMMUTABLE:
        errors += immutable(f"spec.{field}", spec.get(field), before.get(field))
    return errors


_IMMUTABLE: Final = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)


def _validate_spec(pods: PodSpecRules, spec: Document, before: Document) -> Errors:
    errors = validate_job_spec(pods, "spec", spec, before.get("template"))
    selector = spec.get("selector")
    if selector is None:
        return [*errors, required("spec.selector"), *workloads.validate_selector_matches_template(spec)]
    keeps_values = bool(label_selector("", before.get("selector")))
    errors += label_selector("spec.selector", selector, allows_invalid_values=keeps_values)
    if not label_selector("", selector):
        errors += workloads.validate_selector_matches_template(spec)
    return errors


def _validate_hosts(name: str, spec: Document) -> Errors:
    """Checks that the pods of all indexes can have their names as host names."""
    completions = spec.get("completions") or 0
    if spec.get("completionMode") != "Indexed" or completions <= 0:
        return []
    host = f"{name}-{completions - 1}"
    text = f"will not able to create pod with invalid DNS label: {host}"
    return [invalid("metadata.name", name, text)] if names.dns_label(host) else []


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


def _validate_completions_update(spec: Document, before: Document) -> Errors:
    """Checks that only Indexed jobs change completions, and together with parallelism."""
    path, completions = "spec.completions", spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        return immutable(path, completions, before.get("completions"))
    if completions in (None, before.get("completions"), spec.get("parallelism")):
        return []
    return [invalid(path, completions, "can only be modified in tandem with spec.parallelism")]


_SCHEDULING: Final = ("nodeSelector", "tolerations", "schedulingGates")


def _validate_template_update(rules: JobRules, spec: Document, old: Document) -> Errors:
    """Checks that a template does not change, except for fields that may change while the job is
    suspended.
    """
    template, before = spec["template"], old["spec"]["template"]
    is_suspended, status = bool(old["spec"].get("suspend")), old.get("status") or {}
    has_started = bool(status.get("startTime"))
    is_idle = (
        is_suspended
        and not status.get("active")
        and (not has_started or "Suspended" in held_conditions(status))
    )
    if is_idle if rules.has_free_scheduling else is_suspended and not has_started:
        before = _with_scheduling_of(template, before)
    if is_idle and rules.has_free_resources:
        pods = template.get("spec") or {}
        expected = _with_resources_of(pods, before.get("spec") or {})
        return immutable("spec.template.spec", pods, expected)
    return immutable("spec.template", template, before)


def _with_scheduling_of(template: Document, before: Document) -> Document:
    """Returns the old template with the scheduling fields of the new one."""
    pods, meta = template.get("spec") or {}, template.get("metadata") or {}
    kept = _without(before.get("spec") or {}, (*_SCHEDULING, "affinity"))
    kept |= {field: pods[field] for field in _SCHEDULING if field in pods}
    affinity = _without(at(before, "spec", "affinity") or {}, ("nodeAffinity",))
    if "affinity" in pods:
        on_nodes = pods["affinity"].get("nodeAffinity")
        kept["affinity"] = affinity | ({} if on_nodes is None else {"nodeAffinity": on_nodes})
    elif affinity:
        kept["affinity"] = affinity
    kept_meta = _without(before.get("metadata") or {}, ("labels", "annotations"))
    kept_meta |= {field: meta[field] for field in ("labels", "annotations") if field in meta}
    return {**before, "spec": kept, "metadata": kept_meta}


def _with_resources_of(pods: Document, before: Document) -> Document:
    """Returns the old pods with the resources of the new ones, if their containers are the same."""
    kept = dict(before)
    for field in ("containers", "initContainers"):
        new, old = pods.get(field) or (), before.get(field) or ()
        if len(new) == len(old) and new:
            kept[field] = [
                {**_without(was, ("resources",)), "resources": now.get("resources") or {}}
                if now.get("name") == was.get("name")
                else was
                for now, was in zip(new, old, strict=True)
            ]
    return kept


def _without(document: Document, fields: Collection[str]) -> Document:
    return {field: value for field, value in document.items() if field not in fields}


# ---- columns


def _status(document: Document, now: float) -> str:
    held = held_conditions(document.get("status", {}))
    if document["metadata"].get("deletionTimestamp"):
        held |= {"Terminating"}
    return next((outcome for outcome in _OUTCOMES if outcome in held), "Running")


# The first of them that is true is shown.
_OUTCOMES: Final = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _completions(document: Document, now: float) -> str:
    spec, succeeded = document.get("spec", {}), document.get("status", {}).get("succeeded", 0)
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(document: Document, now: float) -> str:
    status = document.get("status", {})
    began = timestamps.from_text(status.get("startTime") or "")
    ended = timestamps.from_text(status.get("completionTime") or "")
    return table.duration((ended or now) - began) if began is not None else ""
