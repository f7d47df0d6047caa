"""What a document of a kind may contain, and the walk that makes sure of it.

`structural` is the schema as plain data. `builtin` reads the schemas of the built-in types from the
definitions that the kubernetes-validate package carries, each when it is first asked for. `compile` turns
a schema into closures that check a document, prune it and normalise it in one pass: nothing interprets a
schema while a request waits.
"""
