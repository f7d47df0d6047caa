"""Server-side apply: the owners of fields, and the results of writes. Pure functions.

Source of the rules: sigs.k8s.io/structured-merge-diff (typed, merge, fieldpath) and k8s.io/apimachinery
pkg/util/managedfields. Requirement rows F01-F31.
"""
