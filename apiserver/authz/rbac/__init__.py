"""Roles say what may be done, bindings say who may do it: what is stored of both, and what follows from it.

Pure: whoever follows the store tells a `Policy` what is there. Rows O03-O05, O08.
Source: k8s.io/kubernetes, plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac.
"""
