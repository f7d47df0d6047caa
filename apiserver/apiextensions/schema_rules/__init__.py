"""The rules of custom resources: `x-kubernetes-validations` in their schemas.

A definition's rules are checked when it is written: they must compile against the types that the schema
gives, and their worst case must not be too dear. When an object is written they are evaluated, each where its
schema stands, against the value and, in an update, the one before it.

- Nothing is compiled before an object needs it; then it is kept as long as the schema is.
- Documents are used as they are. Only what reads otherwise in the language than in JSON (doubles, bytes,
  times, lists that are sets or maps) is converted, and only where a rule reads it.
- An error about a value that an update leaves as it was is a warning, unless the rule looks at the old value:
  objects stay writable when their definition grows stricter.
- All that is done for one definition and for one object is bounded: rules and characters, worst cases, and
  costs while evaluating.
- Who is waited for by others asks for what can be told within milliseconds, and asks again elsewhere if that
  is nothing. What is told then is the same.

    types         from a schema to types, and how names are escaped
    uses          what an expression reads
    adapt         from a document's values to the language's
    compiled      a rule, checked and compiled
    check         the rules of a definition, when it is written
    nodes         where a schema has rules; compiles them
    evaluation    evaluates all rules for one object
    evaluate      what strategies call

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/cel and pkg/apis/apiextensions/validation;
k8s.io/apiserver, pkg/cel/common.
"""
