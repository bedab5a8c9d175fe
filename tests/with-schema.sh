#!/usr/bin/env bash
# Runs the given command with DATABASE_URL naming a database that has just been migrated: a private one, gone afterwards.
set -euo pipefail

data=$(mktemp -d)
chmod 755 "$data"
boxoffice=(cargo run --quiet -- --data-dir "$data/data")
env -u DATABASE_URL -u BOXOFFICE_DATABASE_URL "${boxoffice[@]}" migrate >/dev/null 2>&1
# The private database runs for as long as its input is open.
coproc KEEPER { env -u DATABASE_URL -u BOXOFFICE_DATABASE_URL "${boxoffice[@]}" database 2>/dev/null; }
keeper=$KEEPER_PID
finish() {
  exec {KEEPER[1]}>&-
  wait "$keeper" 2>/dev/null || true
  rm -rf "$(readlink -f "$data/data/postgres" 2>/dev/null || echo "$data")" "$data"
}
trap finish EXIT
read -r settings <&"${KEEPER[0]}"
# diesel's command line takes only the URL form.
directory=$(sed "s/^host='\([^']*\)'.*/\1/" <<<"$settings")
DATABASE_URL="postgres:///boxoffice?host=$directory&user=boxoffice" "$@"
