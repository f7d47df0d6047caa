"""Serves the resources that CustomResourceDefinitions define.

    definition_controller   follows definitions, replaces the table and writes their conditions
    definition_finalizer    deletes the objects of a definition that is being deleted
    resources               makes the served resources of a definition
    version_schema          the schema of one version, read and compiled on first use
    openapi_schema          the schema of one version as OpenAPI publishes it
    strategies              sets fields and validates when objects are written
    columns                 `additionalPrinterColumns` as the columns of tables
    json_path               the JSONPaths of columns, compiled
    custom_resource_codec   converts objects between the stored form and each version
    conversion_reviews      ConversionReviews: requests to conversion webhooks, and their responses
    conversion_webhooks     sends them
    conversion_functions    converts by the functions of an extension
    converted_objects       checks what webhooks and functions have made of objects

The controllers of Kubernetes' apiextensions-apiserver (naming, establishing, API approval, finalizing) are
here, and not among `controllers`: they decide what is served, and in Kubernetes, too, the API server itself
runs them. All servers on one store run them; each write is conditional on the version that it was computed
from and idempotent, so they agree.
"""
