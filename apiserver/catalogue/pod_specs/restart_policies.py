"""Validation of restarts of containers: policies, rules by exit code, and states in statuses.

Source: pkg/apis/core/validation, validateContainerRestartPolicy, validateInitContainerRestartPolicy and
ValidateContainerStateTransition; component-helpers, ContainerShouldRestart and AllContainersCouldRestart.
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.pod_specs.validation_options import PodValidationOptions
from apiserver.meta.field_errors import Errors, forbidden, not_supported, required, too_many
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at, items

_POLICIES: Final = ("Always", "Never", "OnFailure")
_OPERATORS: Final = ("In", "NotIn")
_RESTART: Final = "Restart"
_RESTART_ALL: Final = "RestartAllContainers"
_NEEDS_POLICY: Final = "must specify restartPolicy when restart rules are used"
_RULES_MAX: Final = 20
_EXIT_CODES_MAX: Final = 255


def validate_restart_policy(path: str, container: Document, options: PodValidationOptions) -> Errors:
    """Checks the policy and the rules of a regular container."""
    if not options.restart_rules:
        if container.get("restartPolicy") is None:
            return []
        return [forbidden(f"{path}.restartPolicy", "may not be set for non-init containers")]
    return _policy_and_rules(path, container, options)


def validate_init_restart_policy(path: str, container: Document, options: PodValidationOptions) -> Errors:
    """Checks the policy and the rules of an init container, or of a sidecar, whose policy is Always."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules")
    if policy is None:
        return [required(f"{path}.restartPolicy", _NEEDS_POLICY)] if rules else []
    if not options.restart_rules:
        return [] if policy == "Always" else [not_supported(f"{path}.restartPolicy", policy, ("Always",))]
    if policy != "Always" or options.restart_all_containers:
        return _policy_and_rules(path, container, options)
    text = "restartPolicyRules are not allowed for init containers with restart policy Always"
    return [forbidden(f"{path}.restartPolicyRules", text)] if rules else []


def _policy_and_rules(path: str, container: Document, options: PodValidationOptions) -> Errors:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    errors: Errors = []
    if policy is None and rules:
        errors.append(required(f"{path}.restartPolicy", _NEEDS_POLICY))
    elif policy is not None and policy not in _POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _POLICIES))
    if len(rules) > _RULES_MAX:
        errors.append(too_many(f"{path}.restartPolicyRules", len(rules), _RULES_MAX))
    for where, rule in items(container, "restartPolicyRules", path):
        errors += _rule(where, rule, options)
    return errors


def _rule(path: str, rule: Document, options: PodValidationOptions) -> Errors:
    action, exit_codes = rule.get("action", ""), rule.get("exitCodes")
    actions = (_RESTART, _RESTART_ALL) if options.restart_all_containers else (_RESTART,)
    errors = [] if action in actions else [not_supported(f"{path}.action", action, actions)]
    if exit_codes is None:
        return [*errors, required(f"{path}.exitCodes", "must be specified")]
    operator, values = exit_codes.get("operator", ""), exit_codes.get("values") or ()
    if operator not in _OPERATORS:
        errors.append(not_supported(f"{path}.exitCodes.operator", operator, _OPERATORS))
    if len(values) > _EXIT_CODES_MAX:
        errors.append(too_many(f"{path}.exitCodes.values", len(values), _EXIT_CODES_MAX))
    return errors


# ---- what becomes of containers that have ended

# The statuses of containers, and where these are in the spec.
CONTAINER_STATUSES: Final = (
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
)


def validate_transitions(
    status: Document, old_status: Document, spec: Document, options: PodValidationOptions
) -> Errors:
    """Checks that no ended container that is not restarted runs again. spec: that of the pod."""
    errors: Errors = []
    for statuses, field in CONTAINER_STATUSES:
        may_restart = field != "ephemeralContainers"
        running = {
            each.get("name", "")
            for each in status.get(statuses) or ()
            if at(each, "state", "terminated") is None
        }
        if not running or (may_restart and may_all_restart(spec, options)):
            continue
        containers = {each.get("name", ""): each for each in spec.get(field) or ()}
        for where, known in items(old_status, statuses, "status"):
            ended, name = at(known, "state", "terminated"), known.get("name", "")
            if ended is None or name not in running:
                continue
            if may_restart and _may_restart(spec, containers.get(name), ended.get("exitCode", 0), options):
                continue
            text = "may not be transitioned to non-terminated state"
            errors.append(forbidden(f"{where}.state", text))
    return errors


def may_all_restart(spec: Document, options: PodValidationOptions) -> bool:
    """Returns whether each container may be restarted, according to its policy and rules."""
    if not options.restart_rules:
        return bool(spec.get("restartPolicy") == "Always")
    return options.restart_all_containers and any(
        rule.get("action") == _RESTART_ALL
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
        for rule in container.get("restartPolicyRules") or ()
    )


def _may_restart(
    spec: Document, container: Document | None, exit_code: int, options: PodValidationOptions
) -> bool:
    """Returns whether a container with this end is restarted. container: None if the spec lacks it."""
    policy = spec.get("restartPolicy")
    if not options.restart_rules:
        is_sidecar = container is not None and container.get("restartPolicy") == "Always"
        return is_sidecar or (policy == "OnFailure" and exit_code != 0)
    if container is None:
        return False
    own = container.get("restartPolicy")
    if own is not None:
        if any(_matches(rule, exit_code) for rule in container.get("restartPolicyRules") or ()):
            return True  # Restarting is all that rules do.
        policy = own
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _matches(rule: Document, exit_code: int) -> bool:
    exit_codes = rule.get("exitCodes")
    if exit_codes is None:
        return False
    is_listed = exit_code in (exit_codes.get("values") or ())
    return bool(exit_codes.get("operator") == ("In" if is_listed else "NotIn"))
