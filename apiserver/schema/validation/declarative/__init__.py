"""Declarative validation: rules of built-in types as data, beside the checks that are written as code.

Rows H05-H08. Kubernetes moves the validation of its types, field by field, from code to markers in their
Go types (KEP-5073). A field that has moved is checked in both ways, and the errors are compared; those of the
code count, unless the gate DeclarativeValidationTakeover is on.

migrated.txt     the markers, by type and field
markers.py       the rule that each marker stands for
rules.py         the rules of one type: the errors that they find, and the errors of the code that they cover

A field is in migrated.txt if Kubernetes 1.36 has markers for it in a stable version, and its code finds
errors of the same type there. All of this is pure; `registry.declarative_validation` runs it, compares the
errors of both ways, and counts mismatches.

Why other checks are not declared: those of PodGroups and Workloads (required fields, enums, bounds, names and
unions), and of Leases, were written as rows of such tables, to measure the savings. Of the 732 lines of
scheduling.k8s.io it saved 38, of Leases none, and the rules that markers lack took 51. A PodGroup was checked
in 49 microseconds instead of 19, a Lease in 3.1 instead of 0.4. A rule of one field is one line of code, too,
with the checks of `checks`. So a rule is declared only if Kubernetes compares it with its code.
"""
