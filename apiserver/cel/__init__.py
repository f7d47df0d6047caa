"""The Common Expression Language, as Kubernetes uses it: parsed, type-checked, compiled to closures, costed.

Source of the rules: the language definition (cel-spec), and for texts, costs and libraries what cel-go and
k8s.io/apiserver pkg/cel do. Pure: no I/O, no clock. The way of an expression:

    text -> `lexer`, `parser` (with `grammar`, `macros`; `recovery` words what is wrong) -> `syntax` tree
         -> `checker` (types; with `names`, `unify`, `validators`) -> `estimate` (worst cost)
         -> `compiler` -> a closure over the variables' values, which counts its cost (made of `runs`)

`types` are what an expression may be, `values` what it becomes; both are shared with the libraries, whose
functions are declared by `functions`. An `environment` is what one kind of expression may use: variables,
libraries, release.
"""
