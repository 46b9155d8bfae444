#!/bin/sh
# Makes the secrets of the lab, each once, and notes in compose/.env whose they are. Needs openssl.
set -eu
command -v openssl >/dev/null || { echo "secrets.sh: openssl is missing: install it" >&2; exit 1; }
umask 077
cd "$(dirname "$0")/compose"
mkdir -p secrets data
grep -q ^LAB_UID= .env || printf 'LAB_UID=%s\nLAB_GID=%s\n' "$(id -u)" "$(id -g)" >>.env
cd secrets
RANDOM
new() { [ -s "$2" ] || random "$1" >"$2"; } # bytes file
new 32 ray.token
new 32 jupyter.token
new 16 grafana.password
new 10 s3-root.user
new 20 s3-root.password
new 24 redis.password
printf 'requirepass %s\n' "$(cat redis.password)" >redis.conf
if [ ! -s aws.ini ]; then
    key=$(random 10)
    secret=$(random 20)
    printf '{"access_key": "%s", "secret_key": "%s"}' "$key" "$secret" >s3.json
    printf '[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n' "$key" "$secret" >aws.ini
fi
base64url() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }
head=$(printf '{"alg": "HS512", "typ": "JWT"}' | base64url)
claims=$(printf '{"exp": 4891363200, "sub": "%s", "iss": "prometheus"}' "$(cat s3-root.user)" | base64url)
signature=$(printf '%s.%s' "$head" "$claims" |
    openssl dgst -sha512 -hmac "$(cat s3-root.password)" -binary | base64url)
printf '%s.%s.%s' "$head" "$claims" "$signature" >s3-metrics.token
