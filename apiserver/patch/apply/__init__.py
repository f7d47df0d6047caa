"""Server-side apply: which manager owns which fields of an object, and what follows. Pure functions.

Source of the rules: sigs.k8s.io/structured-merge-diff (typed, merge, fieldpath) and k8s.io/apimachinery
pkg/util/managedfields. Requirement rows F01-F31.
"""
