"""RBAC: roles say what may be done, bindings say who may do it.

Pure: an informer fills an `RbacPolicy` with the stored roles and bindings. Rows O03-O05, O08.
Source: k8s.io/kubernetes, plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac.
"""
