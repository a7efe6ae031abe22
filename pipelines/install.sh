#!/bin/sh
# Installs ioassay, and fio with it, where they are missing.
#
# IOASSAY_CI_PACKAGE  what pip installs: a requirement such as ioassay==0.1.0, or the path of a wheel
# IOASSAY_CI_VENV     the virtual environment for it
set -eu

venv=${IOASSAY_CI_VENV:-.ioassay-venv}

if ! command -v fio >/dev/null; then
    as_root=
    [ "$(id -u)" -eq 0 ] || as_root=sudo
    $as_root apt-get update --quiet --quiet
    $as_root apt-get install --quiet --quiet --yes --no-install-recommends fio
fi

if ! command -v ioassay >/dev/null; then
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -- "${IOASSAY_CI_PACKAGE:-ioassay}"
    PATH=$(cd "$venv/bin" && pwd -P):$PATH
    [ -z "${GITHUB_PATH:-}" ] || printf '%s\n' "${PATH%%:*}" >>"$GITHUB_PATH"
fi
ioassay --version
