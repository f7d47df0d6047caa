"""RBAC: roles contain permissions, and bindings grant them to users.

Pure: an informer fills an `RbacPolicy` with the stored roles and bindings (rows O03-O05, O08).
Source: k8s.io/kubernetes, plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac.
"""
