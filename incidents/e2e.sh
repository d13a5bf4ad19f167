#!/usr/bin/env bash
# Diagnose third-party programs in situations whose truth is known; see README.md.
#
#   incidents/e2e.sh [-times 3] [-for 10s] [-run TEXT,TEXT] [-without] [-held-out] [-keep FOLDER]
#   incidents/e2e.sh -pairs 3 [-for 10s] [-run TEXT,TEXT]
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

# build FOLDER OUTPUT PACKAGE... compiles without taking the machine from others. The
# programs under test are built by the driver, when they are first asked for.
build() {
	local folder=$1 output=$2
	shift 2
	echo "e2e: building $folder $*" >&2
	(cd "$folder" && CGO_ENABLED=0 nice -n 19 "$go" build -trimpath -o "$output" "$@")
}

if [ -z "${WHYLATE:-}" ]; then
	build .. "$bin/whylate" ./cmd/whylate
	WHYLATE=$bin/whylate
fi
build . "$bin/" ./cmd/...
mkdir -p truth
exec "$bin/e2e" -bin "$bin" -hosts hosts -whylate "$WHYLATE" -keep "$bin/incidents" -truth truth "$@"
