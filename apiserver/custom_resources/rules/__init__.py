"""The validation rules of custom resources: `x-kubernetes-validations` in their schemas.

A definition's rules are checked when it is written (`definitions.validation.schema_rules`): they must compile
against the types that the schema gives, and their worst case must not cost too much. When an object is
written they are evaluated, each at the place of its schema, against the value and, in an update, the previous
one.

- Nothing is compiled before an object needs it; then it is kept as long as the schema is.
- Documents are used unchanged. Only values that differ between CEL and JSON (doubles, bytes, times, lists
  that are sets or maps) are converted, and only where a rule reads them.
- An error about an unchanged value is a warning, unless the rule uses the old value: objects stay writable
  when their definition grows stricter.
- The work for one definition and for one object is bounded: rules and characters, worst cases, and costs
  while evaluating.
- In the event loop evaluation is bounded to a few milliseconds; what takes longer raises
  `load.size_class.TakesLong` and is evaluated again, with the same result, in a thread.

    schema_types     makes the CEL types of a schema
    value_adapters   converts a document's values to those of CEL
    compilation      checks and compiles a rule
    rule_tree        the places of rules in a schema; compiles them
    evaluation       evaluates all rules for one object
    validator        the interface for strategies

Source: k8s.io/apiextensions-apiserver, pkg/apiserver/schema/cel and pkg/apis/apiextensions/validation;
k8s.io/apiserver, pkg/cel/common.
"""
