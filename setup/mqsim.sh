#!/bin/sh
# mqsim.sh SOURCE [FOLDER]: builds the simulator MQSim, with whose results the drive `mqsim-default` is compared.
#
# Only benches/mqsim.py, which records them, and tests/packs/ssd/test_mqsim.py, which repeats them, need it. SOURCE is
# MQSim of the commit below (github.com/CMU-SAFARI/MQSim): a folder, which is not changed, or an archive that tar
# reads. The program and its default drive end up in FOLDER, by default .setup/mqsim of this checkout. The build takes
# half a minute, and installs the Debian packages that are missing.
set -eu

commit=7ec40e3b198e
# Of the list of checksums of its sources: it has no version of its own.
checksum=1c67d389b51a980b6f9b73fbfaf5c05431b1ccbe52f9c5d17b05307608e3b420
build_packages='
make                                make                a build with make
g++                                 g++                 MQSim
'

root=$(CDPATH='' cd -P -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd -P)
# shellcheck source=setup/build_from_source.sh
. "$root/setup/build_from_source.sh"

main() {
    begin_build mqsim "MQSim $commit" "$@"
    check_source
    install_missing "$build_packages"
    step "building MQSim $commit" make -j "$(nproc)" -C "$build/source"
    install -s -m 755 "$build/source/MQSim" "$folder/MQSim"
    install -m 644 "$build/source/ssdconfig.xml" "$folder/ssdconfig.xml"
    printf '%s\n' "$commit" >"$folder/version"
    say "built MQSim $commit: $folder"
}

check_source() {
    [ -f "$build/source/ssdconfig.xml" ] || fail "$source has no ssdconfig.xml; expected all of MQSim $commit"
    seen=$(cd "$build/source" && find src ssdconfig.xml -type f -exec sha256sum {} + | LC_ALL=C sort -k 2 | sha256sum)
    [ "${seen%% *}" = "$checksum" ] || fail "$source is another MQSim (sha256 of its files ${seen%% *});" \
        "expected commit $commit ($checksum)"
}

main "$@"
