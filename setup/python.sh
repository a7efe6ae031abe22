# shellcheck shell=sh disable=SC2154
# The virtual environment .venv, the Python packages in it, and the compiled module.

# find_python   sets $python to the system's Python where it will do, by its full name: after an upgrade of the
# system /usr/bin/python3 is another Python, with which an old environment must not be used
find_python() {
    python_wanted=$(sed -n 's/^requires-python = ">=\(.*\)"/\1/p' pyproject.toml)
    look_for_python /usr/bin/python3 && return
    ! can_install || step "installing system packages, once: python3 python3-venv" apt_install python3 python3-venv
    look_for_python /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11 || fail "no Python of version $python_wanted or newer with the modules venv and ensurepip found:" \
        "install one and start again"
}

# look_for_python NAME…   sets $python to the first that is new enough and can make an environment
look_for_python() {
    for python in "$@"; do
        python=$("$python" -c 'import ensurepip, os, sys, venv
wanted = tuple(map(int, sys.argv[1].split(".")))
print(os.path.realpath(sys.executable)) if sys.version_info >= wanted else sys.exit(1)' "$python_wanted" 2>/dev/null) &&
            return
    done
    return 1
}

# make_venv   unless one is there that works, is of this Python and was not moved
make_venv() {
    venv_key="$root $python $("$python" --version)"
    if [ -d .venv ] && .venv/bin/python -c 'import pip' 2>/dev/null; then
        [ -e "$state/venv" ] || printf '%s\n' "$venv_key" >"$state/venv" # made by hand: taken as it is
        [ "$(cat "$state/venv")" != "$venv_key" ] || return 0
    fi
    rm -rf "$state/run" "$state/check" "$state/installed-run" "$state/installed-check" "$state/built"
    step "making a virtual environment of $python in .venv, once" "$python" -m venv --clear .venv
    printf '%s\n' "$venv_key" >"$state/venv"
}

# install_python_packages GOAL   as pyproject.toml names and constraints.txt pins them; ./ioassay needs no test tools
install_python_packages() {
    [ "$(cat "$state/installed-$1" 2>/dev/null)" != "$(installed_key "$1")" ] || return 0
    .venv/bin/python setup/requirements.py "$1" >"$state/requirements.txt"
    say "installing Python packages into .venv, once (a minute or two)"
    { [ "$1" = check ] && install_by_uv; } ||
        quietly pip_install --requirement "$state/requirements.txt" || fail_with_log "installing Python packages"
    make_lean
    installed_key "$1" >"$state/installed-$1"
    [ "$1" = run ] || installed_key run >"$state/installed-run" # the tests' packages include the program's
}

pip_install() {
    .venv/bin/python -m pip install --disable-pip-version-check --no-input --progress-bar off \
        --constraint constraints.txt "$@"
}

# install_by_uv   the many packages of a check, in a quarter of pip's processor time. It does not read pip's own settings,
# so where these name another index pip goes on.
install_by_uv() {
    quietly pip_install uv && quietly env VIRTUAL_ENV="$root/.venv" .venv/bin/uv pip install --quiet \
        --constraint constraints.txt --requirement "$state/requirements.txt"
}

# The versions of Python that a wheel is tried with: the oldest that is supported, and a recent one.
tried_pythons='3.11 3.13'
pip_of_pipx='pip>=26.1' # which pipx would fetch

# fetch_wheelhouse   the wheels of what the program needs, of each such Python that is here, for the tests that
# install ours as users do. .setup/wheelhouse/pythons names the interpreters.
fetch_wheelhouse() {
    name_missing_pythons
    wheelhouse=$state/wheelhouse
    wheelhouse_key="$(installed_key run) $tried_pythons $pip_of_pipx"
    [ "$(cat "$wheelhouse/key" 2>/dev/null)" != "$wheelhouse_key" ] || has_new_python "$wheelhouse/pythons" || return 0
    say "fetching the wheels that ioassay needs, once (tests install them without network)"
    rm -rf "$wheelhouse" && mkdir "$wheelhouse"
    .venv/bin/python setup/requirements.py run >"$state/requirements.txt"
    true >"$wheelhouse/pythons.new"
    for version in $tried_pythons; do
        interpreter=$(python_of_version "$version") || continue
        quietly .venv/bin/python -m pip --disable-pip-version-check download --no-input --progress-bar off \
            --only-binary :all: --python-version "$version" --dest "$wheelhouse" --constraint constraints.txt \
            --requirement "$state/requirements.txt" "$pip_of_pipx" || {
            say "could not fetch the wheels of Python $version (see $log); tests will be skipped that need them"
            return
        }
        printf '%s=%s\n' "$version" "$interpreter" >>"$wheelhouse/pythons.new"
    done
    mv "$wheelhouse/pythons.new" "$wheelhouse/pythons"
    printf '%s\n' "$wheelhouse_key" >"$wheelhouse/key"
}

# name_missing_pythons   says which of these Pythons are not here. None is downloaded: their hosts are no package index.
name_missing_pythons() {
    for version in $tried_pythons; do
        python_of_version "$version" >/dev/null ||
            say "no Python $version here, so the tests of the wheel with it will be skipped: install it by pyenv or uv," \
                "or as python$version on PATH"
    done
}

# has_new_python PYTHONS   whether one of these Pythons is here that the file does not name
has_new_python() {
    for version in $tried_pythons; do
        grep -q "^$version=" "$1" 2>/dev/null || ! python_of_version "$version" >/dev/null || return 0
    done
    return 1
}

# python_of_version VERSION   the system's, one on PATH that runs, or one that pyenv or uv keeps
python_of_version() {
    home=${HOME:-/nonexistent}
    for candidate in /usr/bin/python3 "python$1" "$home/.pyenv/versions/$1".*/bin/python \
        "${XDG_DATA_HOME:-$home/.local/share}/uv/python/cpython-$1".*/bin/python; do
        "$candidate" -c 'import os, sys, venv
print(os.path.realpath(sys.executable)) if sys.argv[1] == "%s.%s" % sys.version_info[:2] else sys.exit(1)' "$1" 2>/dev/null &&
            return
    done
    return 1
}

# make_lean   takes away what only debuggers and builds of Python packages read: 50 of 490 MB
make_lean() {
    quietly .venv/bin/python -m pip --disable-pip-version-check uninstall --yes setuptools || true
    command -v strip >/dev/null || return 0
    for library in .venv/lib/python*/site-packages/_polars_runtime*/*.so; do
        # Another file in its place: programs that are running have this one mapped.
        if [ -e "$library" ] && quietly strip --strip-unneeded -o "$library.new" "$library"; then
            chmod --reference="$library" "$library.new" && mv "$library.new" "$library"
        fi
    done
}

installed_key() {
    .venv/bin/python setup/requirements.py "$1" | cat - constraints.txt "$state/venv" | sha256sum
}

# build_core   where the sources' contents differ from those of the last build
build_core() {
    built_key=$(find crates Cargo.toml Cargo.lock pyproject.toml "$state/venv" -type f ! -name '.*' -exec sha256sum {} + |
        LC_ALL=C sort | { cat && rustc --version; } | sha256sum)
    [ "$(cat "$state/built" 2>/dev/null)" != "$built_key" ] || ! core_imports 2>/dev/null || return 0
    spare_running_programs
    # No index: all that pip may find missing here should have come through constraints.txt above.
    step "building the compiled module, once for each change of crates/ (a minute or two)" \
        env VIRTUAL_ENV="$root/.venv" PIP_NO_INDEX=1 .venv/bin/maturin develop --release --locked --quiet
    quietly core_imports || fail_with_log "importing the compiled module"
    # For users who may not write here: each of their starts would compile all of it again.
    quietly .venv/bin/python -m compileall -q python/ioassay || true
    printf '%s\n' "$built_key" >"$state/built"
}

core_imports() {
    .venv/bin/python -I -c 'import ioassay._core'
}

# The build writes into the file that programs which are running have mapped; they keep the old file instead.
spare_running_programs() {
    for module in python/ioassay/_core*.so; do
        [ ! -e "$module" ] || { cp -p "$module" "$module.old" && mv "$module.old" "$module"; }
    done
}
