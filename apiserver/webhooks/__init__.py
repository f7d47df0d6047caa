"""Calls webhooks: for conversion, admission, authorization, authentication and auditing.

    client_config     the URL and CA of a webhook
    credentials       the credentials of this server; credential_files: those in separate files
    client            sends a review, and reads the response within bounds
    connections       connections to webhooks, kept for the next request
    http_answers      reads a response over HTTP/1.1. Pure
    caller            posts a review to a webhook
    review_server     asks the server that a kubeconfig names, or sends audit events to it
    kubeconfig        files that configure calls of other servers
    authorizer        an authorizer that calls a webhook
    token_reviews     authenticates tokens by a webhook
    document_fetcher  gets documents of identity providers, which are no webhooks, with the same care
    addresses         the addresses that webhooks may not have
    service_resolver  finds the Service of a webhook; cached_services: in the watch cache
    tls               verifies the certificates of webhooks
    errors            the errors of calls
    failure_log       logs that a webhook is down, without a line for each call

The content of requests and responses is up to the callers (`admission.webhooks`, `custom_resources`).
"""
