#!/usr/bin/env bash
# Installs the named Debian packages that are missing. Elsewhere it says what to install and leaves it to the reader.
set -euo pipefail

missing=()
for package in "$@"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
# What is there under another name will do: a PostgreSQL of another source, a compiler that is not Debian's.
has() {
  case "$1" in
    postgresql) [ -n "${PG_BIN:-}" ] || command -v pg_ctl >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ;;
    python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    chromium-driver) command -v chromedriver >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}
needed=()
for package in "${missing[@]}"; do has "$package" || needed+=("$package"); done
[ "${#needed[@]}" = 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "Please install: ${needed[*]} (on macOS: brew install postgresql), then try again." >&2
  exit 1
fi
sudo=""
[ "$(id -u)" = 0 ] || sudo=sudo
echo "Installing ${needed[*]}"
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${needed[@]}" >/dev/null
