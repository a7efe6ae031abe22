# shellcheck shell=sh disable=SC2154
# What the builds of other projects' programs have in common: rocksdb.sh, spdk.sh. Needs $root.
#
# A build happens in a folder of its own within the one where the programs end up, and is gone when the script ends.

state=$root/.setup

# shellcheck source=setup/say.sh
. "$root/setup/say.sh"
# shellcheck source=setup/packages.sh
. "$root/setup/packages.sh"

# begin_build NAME PROJECT SOURCE [FOLDER]   sets $folder, where the programs end up (.setup/NAME), and $build, whose
# folder `source` has the source of PROJECT: a folder's, which is not changed, or an archive's
begin_build() {
    [ $# -eq 3 ] || [ $# -eq 4 ] || fail "usage: setup/$1.sh SOURCE [FOLDER]"
    name=$1 project=$2 source=$3 log=$state/$1.log
    mkdir -p "$state" "${4:-$state/$name}"
    folder=$(CDPATH='' cd -P -- "${4:-$state/$name}" && pwd -P)
    : >"$log"
    build=$(mktemp -d "$folder/build.XXXXXX")
    trap 'rm -rf "$build"' EXIT
    trap 'exit 1' HUP INT TERM
    mkdir "$build/source"
    if [ -d "$source" ]; then
        step "copying $source" cp -a "$source/." "$build/source"
    elif [ -f "$source" ]; then
        step "unpacking $source" tar -xf "$source" -C "$build/source"
        set -- "$build/source"/*
        # Archives often have one folder that holds everything.
        if [ $# -eq 1 ] && [ -d "$1" ]; then
            mv "$1" "$build/inner" && rmdir "$build/source" && mv "$build/inner" "$build/source"
        fi
    else
        fail "$source is no folder and no archive; expected the source of $project"
    fi
}

# install_missing PACKAGES   as in packages.sh
install_missing() {
    missing=$(missing_packages "$1")
    [ -z "$missing" ] || apt_install_or_fail "$missing"
}
