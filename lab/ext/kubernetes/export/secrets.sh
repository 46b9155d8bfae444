#!/bin/sh
# Makes the Secrets that the manifests refer to. Repeating it keeps the tokens that are there.
set -eu
: "${AWS_ACCESS_KEY_ID:?set it to the key of the object store}"
: "${AWS_SECRET_ACCESS_KEY:?set it to the secret of that key}"

RANDOM
new() { # name key: a Secret with a random text, unless it is there
    KUBECTL get secret "$1" >/dev/null 2>&1 && return
    token=$(random 32)
    printf %s "$token" | KUBECTL create secret generic "$1" --from-file="$2"=/dev/stdin
}
NEW
printf 'AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\n' "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" |
    KUBECTL create secret generic STORE --from-env-file=/dev/stdin --dry-run=client -o yaml |
    KUBECTL apply --server-side -f -
