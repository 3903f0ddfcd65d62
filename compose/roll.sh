#!/bin/sh
# Replace every replica of `envs` by one of the image that is there now, with no moment without a replica.
# Sessions of replayable environments move on between two calls. Run it after `docker compose build envs`.
#
#     ./roll.sh [OPTIONS OF docker compose ...]      such as -p NAME, --env-file FILE, -f FILE
set -eu
cd "$(dirname "$0")"

old=$(docker compose "$@" ps -q envs)
count=$(printf '%s\n' "$old" | grep -c .)
[ "$count" -gt 0 ] || { echo "roll.sh: no replica runs; use \`docker compose up\`" >&2; exit 1; }

# As many new ones beside them; `--no-recreate` leaves the old ones alone. It waits until the new ones are healthy.
docker compose "$@" up -d --wait --no-deps --no-recreate --scale "envs=$((2 * count))" envs

# Each answers its calls in flight, hands its sessions over and goes; the gateway sends the next calls elsewhere.
for container in $old; do
    docker stop --time 45 "$container" >/dev/null
    docker rm "$container" >/dev/null
done
echo "roll.sh: $count replicas replaced"
