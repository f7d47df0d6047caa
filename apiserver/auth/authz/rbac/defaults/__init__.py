"""The default roles and bindings of Kubernetes 1.36, which every cluster has from the start.

Each role is a table of rules in a short notation (`notation`); `documents` builds the objects for a brand.
Rules of features that are off by default in 1.36 are left out, but for those of types that their gates
switch on (`gated_roles`); and so are the steps from before 1.9 and 1.14, when `admin`, `edit`, `view` and
`system:discovery` held other rules.
Source: k8s.io/kubernetes, plugin/pkg/auth/authorizer/rbac/bootstrappolicy.
"""

from apiserver.auth.authz.rbac.defaults.documents import DefaultObject, autoupdate_key, default_objects

__all__ = ["DefaultObject", "autoupdate_key", "default_objects"]
