#!/usr/bin/env bash
# Installs what nodes are made and run with, where it is missing. For Debian and what is like it.
set -euo pipefail
missing=()
need() {
  command -v "$1" >/dev/null || missing+=("$2")
}
need debootstrap debootstrap
need systemd-nspawn systemd-container
need ip iproute2
need pgrep procps
need nsenter util-linux
need strip binutils
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update --quiet --quiet >&2
  apt-get install --yes --quiet --quiet --no-install-recommends "${missing[@]}" >&2
fi
