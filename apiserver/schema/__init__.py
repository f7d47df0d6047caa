"""Schemas of documents, and their compilation to checks.

`structural` has the schema as plain data. `builtin` reads the schemas of the built-in types from the
definitions in the kubernetes-validate package, each at its first use. `compile` turns a schema into closures
that check, prune and normalize a document in one pass, so that no schema is interpreted during a request.
`from_unstructured` makes the errors about wrong types in strategic merge patches. `validation` has the checks
that many kinds share. The schemas of custom resources are in `custom_resources.schemas`.
"""
