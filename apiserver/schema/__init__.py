"""Schemas of documents, and their compilation.

`structural` has the schema as plain data. `builtin` reads the schemas of the built-in types from the
definitions in the kubernetes-validate package, each at its first use. `compile` turns a schema into closures
that check, prune and normalise a document in one pass: nothing interprets a schema while a request waits.
`from_unstructured` words wrong types in
strategic merge patches. `validation` has the checks that many kinds share. What only custom resources need of
their schemas is in `custom_resources.schemas`.
"""
