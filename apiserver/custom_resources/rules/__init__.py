"""The validation rules of custom resources: `x-kubernetes-validations` in their schemas.

A definition's rules are checked when it is written (`definitions.validation.schema_rules`): they must compile
against the types that the schema gives, and their worst case must not cost too much. When an object is
written they are evaluated, each where its schema stands, against the value and, in an update, the one before
it.

- Nothing is compiled before an object needs it; then it is kept as long as the schema is.
- Documents are used as they are. Only values that differ between CEL and JSON (doubles, bytes, times, lists
  that are sets or maps) are converted, and only where a rule reads them.
- An error about a value that an update leaves as it was is a warning, unless the rule looks at the old value:
  objects stay writable when their definition grows stricter.
- All that is done for one definition and for one object is bounded: rules and characters, worst cases, and
  costs while evaluating.
- In the event loop evaluation is bounded to a few milliseconds; what takes longer raises
  `load.size_class.TakesLong` and is evaluated again, with the same result, in a thread.

    schema_types     from a schema to CEL's types
    value_adapters   from a document's values to CEL's
    compilation      a rule, checked and compiled
    rule_tree        where a schema has rules; compiles them
    evaluation       evaluates all rules for one object
    validator        what strategies call

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/cel and pkg/apis/apiextensions/validation;
k8s.io/apiserver, pkg/cel/common.
"""
