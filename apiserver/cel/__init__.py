"""The Common Expression Language (CEL) as Kubernetes uses it: parsing, type checks, evaluation, and costs.

The rules follow the language definition (cel-spec); texts, costs and libraries follow cel-go and
k8s.io/apiserver pkg/cel. Pure: no clock, and no I/O except reading files of time zones. Bounded caches keep
results of pure functions between calls: declarations of libraries, parsed quantities and addresses, zones.
The stages of an expression:

    text -> `lexer`, `parser` (with `grammar`, `macros`; `token_reader` recovers from errors) -> `syntax` tree
         -> `checker` (types; with `name_resolution`, `unification`, `validators`) -> `cost_estimate`
         -> `compiler` -> a closure over the variables' values, which counts its cost (made of `evaluators`)

`types` has the static types of expressions, `values` the results of evaluation; libraries use both.
`concatenation` has the lists that `+` makes.
`functions` declares functions, and `declarations` libraries. An `environment` has the variables, libraries
and types that one kind of expression may use; `kubernetes_environments` makes the environments of Kubernetes,
and `admission` those of policies and of webhooks' match conditions. `references` finds the variables and
fields that an expression reads, and `escaping` the names of fields that are not identifiers.
"""
