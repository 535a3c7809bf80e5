#!/usr/bin/env bash
# Installs moto, the outside witness of the AWS provider, into a cache outside the target directory, once per
# version. Prints the folder of its programs. Needs Python 3.10 or newer with venv, and a network for packages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

version=$(sed -n 's/^moto.*==//p' requirements.txt)
home="${XDG_CACHE_HOME:-$HOME/.cache}/shipshape/testbed/moto-$version"
if [ ! -e "$home/complete" ]; then
  rm -rf "$home"
  python3 -m venv "$home"
  "$home/bin/pip" install --quiet --disable-pip-version-check --requirement requirements.txt
  touch "$home/complete"
fi
echo "$home/bin"
