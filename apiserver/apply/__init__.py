"""Who owns which fields of an object, and what follows from it: server-side apply. Pure functions.

Source of the rules: sigs.k8s.io/structured-merge-diff (typed, merge, fieldpath) and k8s.io/apimachinery
pkg/util/managedfields. Requirement rows F01-F31.
"""
