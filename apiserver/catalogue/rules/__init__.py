"""What is set and what is checked of built-in types: defaults by definition, and checks of documents.

A module per family of kinds. `defaults` puts all defaults together; strategies in the catalogue name the
checks. Paths, reasons, texts and order of errors are Kubernetes' (pkg/apis/*/validation of release 1.34,
k8s.io/kubernetes), because people and scripts know them. Everything here is pure.
"""
