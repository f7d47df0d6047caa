"""Checks the expressions of ValidatingAdmissionPolicies against the types of their objects.

    schema_types  makes the CEL types of schemas. Pure
    type_checker  finds type errors in the expressions of a policy, for each of its types. Pure
    controller    writes warnings into the status of policies

The result does not affect the policy: warnings are for its author. Each version of a policy is checked once,
and not again when a type is defined later, as in Kubernetes.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/validating/typechecking.go; kubernetes,
pkg/controller/validatingadmissionpolicystatus.
"""
