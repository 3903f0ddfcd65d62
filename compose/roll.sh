#!/bin/sh
# Replace every replica of `envs` by one of the image that is there now, with no moment without a replica.
# Sessions of replayable environments move on between two calls. Run it after `docker compose build envs`.
# Where the new ones do not get healthy they are removed again, and the old ones serve on.
#
#     ./roll.sh [OPTIONS OF docker compose ...]      such as -p NAME, --env-file FILE, -f FILE
set -eu
cd "$(dirname "$0")"

old=$(docker compose "$@" ps -q envs)
count=$(printf '%s\n' "$old" | grep -c .) || { echo "roll.sh: no replica runs; use \`docker compose up\`" >&2; exit 1; }
# One that has stopped is no replica, but would be started again and counted as a new one.
docker compose "$@" rm -f envs >/dev/null 2>&1

# As many new ones beside them; `--no-recreate` leaves the old ones alone. It waits until the new ones are healthy.
if ! docker compose "$@" up -d --wait --no-deps --no-recreate --scale "envs=$((2 * count))" envs; then
    new=$(docker compose "$@" ps -aq envs | grep -vxF "$old") || exit 1
    for container in $new; do
        [ "$(docker inspect -f '{{.State.Health.Status}}' "$container")" = healthy ] && continue
        docker logs "$container" 2>&1 | grep -v ' INFO ' | tail -n 5 >&2
    done
    docker rm -f $new >/dev/null
    echo "roll.sh: the new replicas did not get healthy and are removed, the old ones serve on; above is what the" \
        "new ones said: mend that, then run roll.sh again" >&2
    exit 1
fi

# Each answers its calls in flight, hands its sessions over and goes; the gateway sends the next calls elsewhere.
for container in $old; do
    docker stop --time 45 "$container" >/dev/null
    docker rm "$container" >/dev/null
done
echo "roll.sh: $count replicas replaced"
