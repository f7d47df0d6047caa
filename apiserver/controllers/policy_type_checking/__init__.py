"""Checks the expressions of ValidatingAdmissionPolicies against the types that they are about.

    schema_types  the types of CEL that schemas stand for. Pure
    type_checker  what is wrong with the expressions of a policy, for each of its types. Pure
    controller    writes it into the status of policies

A policy works as it does whatever is found: warnings are for whoever has written it. Each version of a policy
is checked once; that a type is defined later does not have it checked again, as in Kubernetes.

Source: k8s.io/apiserver, pkg/admission/plugin/policy/validating/typechecking.go; kubernetes,
pkg/controller/validatingadmissionpolicystatus.
"""
