"""The Common Expression Language, as Kubernetes uses it: parsed, type-checked, compiled to closures, costed.

Source of the rules: the language definition (cel-spec), and for texts, costs and libraries what cel-go and
k8s.io/apiserver pkg/cel do. Pure: no clock, no I/O but the files of time zones. What is kept between calls
are results of pure functions, in bounded caches: declarations of libraries, parsed quantities and addresses,
zones. The way of an expression:

    text -> `lexer`, `parser` (with `grammar`, `macros`; `token_reader` recovers from errors) -> `syntax` tree
         -> `checker` (types; with `name_resolution`, `unification`, `validators`) -> `cost_estimate`
         -> `compiler` -> a closure over the variables' values, which counts its cost (made of `evaluators`)

`types` are what an expression may be, `values` what it becomes; both are shared with the libraries, whose
functions are declared by `functions`, and libraries by `declarations`. An `environment` is what one kind of
expression may use: variables, libraries, release; `kubernetes_environments` makes those that Kubernetes has,
and `admission` those of policies and of webhooks' match conditions. `references` tells which variables and
fields an expression reads, and `escaping` how it names fields whose names are no identifiers.
"""
