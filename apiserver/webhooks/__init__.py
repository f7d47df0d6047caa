"""What all webhooks have in common that this server calls: those of conversion, and those of admission.

    client_config     where a webhook is
    credentials       how this server proves to them who it is; credential_files: what is in files of its own
    client            sends a review, and reads the answer within bounds
    connections       connections to webhooks, which are kept for the next request
    http_answers      reads an answer over HTTP/1.1. Pure
    caller            posts a review to a webhook
    review_server     asks the server that a kubeconfig names, or sends audit events to it
    kubeconfig        files that say how this server calls others
    authorizer        an authorizer that asks a webhook
    token_reviews     asks a webhook whose a token is
    document_fetcher  gets documents of identity providers, which are no webhooks, with the same care
    addresses         where no webhook may be
    service_resolver  where a Service is that a webhook is behind; cached_services: as the watch cache has it
    tls               whether the certificate of a webhook is trusted
    errors            what can go wrong

What a webhook is sent, and what it may answer, is the matter of those who call it (`admission.webhooks`,
`custom_resources`).
"""
