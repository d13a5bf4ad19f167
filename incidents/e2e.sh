#!/usr/bin/env bash
# Diagnose third-party programs in situations whose truth is known; see README.md.
#
#   incidents/e2e.sh [-times 3] [-for 10s] [-run TEXT] [-keep FOLDER]
#
# WHYLATE=FILE judges that binary instead of one that is built here. Needs Go, a C
# compiler, and for the first run a module proxy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# Every module is built as its users get it: without the workspace.
export GOWORK=off
unset GOOS GOARCH CGO_ENABLED
go=${GO:-go}
bin=$(cd .. && pwd)/.cache/e2e
mkdir -p "$bin"

# build FOLDER OUTPUT PACKAGE... compiles without taking the machine from others, and
# without C unless CGO_ENABLED says so.
build() {
	local folder=$1 output=$2
	shift 2
	echo "e2e: building $folder $*" >&2
	(cd "$folder" && CGO_ENABLED=${CGO_ENABLED:-0} nice -n 19 "$go" build -trimpath -o "$output" "$@")
}

# A host is built only when its own files or Go have changed: linking one takes
# longer than a run.
host() {
	local folder=$1
	shift
	local key
	key=$({ "$go" env GOVERSION; find "$folder" -type f | LC_ALL=C sort | xargs cat; } | cksum)
	if [ "$(cat "$bin/$(basename "$folder").key" 2>/dev/null)" != "$key" ]; then
		build "$folder" "$bin/" "$@"
		echo "$key" >"$bin/$(basename "$folder").key"
	fi
}

if [ -z "${WHYLATE:-}" ]; then
	build .. "$bin/whylate" ./cmd/whylate
	WHYLATE=$bin/whylate
fi
build . "$bin/" ./cmd/e2e ./cmd/peer ./cmd/front ./cmd/neighbour
host hosts/caddy . ./mirrored
host hosts/etcd .
host hosts/gateway .
CGO_ENABLED=1 host hosts/resize .
if [ "$("$go" env GOOS)" = linux ]; then
	build . "$bin/" ./cmd/slowfs
fi

exec "$bin/e2e" -bin "$bin" -whylate "$WHYLATE" -keep "$bin/incidents" "$@"
