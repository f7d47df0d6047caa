"""Declarative validation: rules of built-in types as data, beside the checks that are written as code.

Rows H05-H08. Kubernetes moves the validation of its types, field by field, from code to markers in their
Go types (KEP-5073). A field that has moved is checked in both ways, and what they find is compared; what the
code finds counts, unless the gate DeclarativeValidationTakeover is on.

migrated.txt     the markers, by type and field
markers.py       the rule that each marker stands for
rules.py         the rules of one type: which errors they find, and which errors of the code they cover
comparison.py    what one way finds and the other one does not

A field is in migrated.txt if Kubernetes 1.36 has markers for it in a stable version, and its code finds
errors of the same type there. All of this is pure; `registry.declarative_validation` runs it, and counts
mismatches.
"""
