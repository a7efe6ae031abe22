#!/bin/sh
# debian-package.sh SUITE [FOLDER [WHEEL]]: builds the package for Debian `bookworm` or `trixie` into FOLDER
# (target/debian), of WHEEL or of the wheel of this checkout.
#
# Debian's polars, duckdb and pydantic are missing or too old. The package therefore has an environment of Python of its
# own in /usr/lib/ioassay: the wheel, and those of the dependencies, in the versions of constraints.txt. Only the
# interpreter is Debian's. pip fetches those wheels once into .setup/debian, and `--fetch` as FOLDER does nothing else.
# After that no network is needed. The suite may be another than this system's. Files that go in as text are in setup/debian.
#
# The same sources give the same bytes. Times are those of the last commit, or SOURCE_DATE_EPOCH. DEBFULLNAME and
# DEBEMAIL name the maintainer, as for Debian's own tools.
set -eu

root=$(CDPATH='' cd -P -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd -P)
state=$root/.setup log=$root/.setup/debian.log parts=$root/setup/debian
# shellcheck source=setup/say.sh
. "$root/setup/say.sh"
# shellcheck source=setup/ready.sh
. "$root/setup/ready.sh"
# What the wheels of these ask of the C library; bookworm has 2.36.
platforms='manylinux_2_34_x86_64 manylinux_2_28_x86_64 manylinux_2_17_x86_64 manylinux2014_x86_64'

main() {
    case $# in
    1 | 2 | 3) ;;
    *) fail 'usage: setup/debian-package.sh SUITE [FOLDER [WHEEL]]' ;;
    esac
    describe_suite "$1"
    cd "$root"
    # The set-up itself fetches.
    [ "${2:-}" = --fetch ] || ready "$root" check || sh "$root/setup/setup.sh" "$root" check
    mkdir -p "$state" && : >"$log"
    fetch_wheels
    [ "${2:-}" != --fetch ] || return 0
    mkdir -p "${2:-target/debian}"
    folder=$(CDPATH='' cd -P -- "${2:-target/debian}" && pwd -P)
    for tool in dpkg-deb dpkg-shlibdeps strip; do
        command -v "$tool" >/dev/null || fail "no $tool, which builds packages: apt-get install dpkg-dev binutils"
    done
    export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" LC_ALL=C TZ=UTC
    umask 022
    work=$(mktemp -d "${TMPDIR:-/var/tmp}/ioassay-debian.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' HUP INT TERM
    tree=$work/tree
    take_wheel "${3:-}"
    lay_out_environment
    lay_out_documents
    write_control
    pack
}

describe_suite() {
    suite=$1
    case $suite in
    bookworm) release=deb12 python=3.11 next_python=3.12 ;;
    trixie) release=deb13 python=3.13 next_python=3.14 ;;
    *) fail "the suite is '$suite', expected bookworm or trixie" ;;
    esac
    architecture=$(dpkg --print-architecture)
    [ "$architecture" = amd64 ] || fail "this system is $architecture; the package is built on amd64 only"
}

# for_suite COMMAND [ARGUMENT…]   a command of pip, for the suite's Python, which need not be here
for_suite() {
    command=$1
    shift
    for platform in $platforms; do
        set -- --platform "$platform" "$@"
    done
    .venv/bin/python -m pip --disable-pip-version-check --no-input "$command" --progress-bar off --only-binary :all: \
        --implementation cp --python-version "$python" "$@"
}

fetch_wheels() {
    wheels=$state/debian/wheels-$python
    requirements=$(.venv/bin/python setup/requirements.py package)
    key=$(printf '%s\n' "$requirements" "$platforms" | cat - constraints.txt | sha256sum)
    [ "$(cat "$wheels/key" 2>/dev/null)" != "$key" ] || return 0
    rm -rf "$wheels"
    mkdir -p "$wheels"
    printf '%s\n' "$requirements" >"$wheels/requirements.txt"
    step "fetching the wheels of Python $python, once" for_suite download --dest "$wheels" \
        --constraint constraints.txt --requirement "$wheels/requirements.txt"
    # The build of polars for any processor takes the place of this one.
    rm -f "$wheels"/polars_runtime_32-*.whl
    printf '%s\n' "$key" >"$wheels/key"
}

# take_wheel [WHEEL]   sets $wheel and $version
take_wheel() {
    wheel=$1
    if [ -z "$wheel" ]; then
        sh setup/wheel.sh "$work/wheel" >/dev/null
        wheel=$(echo "$work"/wheel/ioassay-*.whl)
    fi
    case ${wheel##*/} in
    ioassay-*-abi3-*.whl) [ -f "$wheel" ] || fail "no such wheel: '$wheel'" ;;
    *) fail "the wheel is '$wheel', expected ioassay-VERSION-cp311-abi3-….whl: setup/wheel.sh builds it" ;;
    esac
    version=$(basename -- "$wheel" | cut -d - -f 2)
    # Smaller than a later revision of Debian's own, and the newer suite's is the greater.
    version=$version-1~$release
}

# An environment as `python3 -m venv` makes it, without pip and with the interpreter of the suite.
lay_out_environment() {
    private=$tree/usr/lib/ioassay
    site=$private/lib/python$python/site-packages
    mkdir -p "$private/bin" "$site" "$tree/usr/bin"
    ln -s "../../../bin/python$python" "$private/bin/python3"
    printf '%s\n' 'home = /usr/bin' 'include-system-site-packages = false' "version = $python" >"$private/pyvenv.cfg"
    step "unpacking the wheels" for_suite install --no-index --no-deps --no-compile --target "$site" \
        "$wheels"/*.whl "$wheel"
    # What pip notes of its own work has paths of this machine.
    rm -rf "${site:?}/bin" "$site"/*.dist-info/direct_url.json "$site"/*.dist-info/REQUESTED
    # What only builds and tests of these libraries read.
    find "$site" -depth \( -type d -name tests -o -path '*/numpy/_core/include' -o -path '*/numpy/f2py' \
        -o -name '*.a' -o -name '*.pxd' -o -name '*.c' -o -name '*.h' \) -exec rm -rf {} +
    # Not those in numpy.libs: patchelf has edited them, after which strip breaks them.
    find "$site" -type f -name '*.so*' ! -path '*.libs/*' -exec strip --strip-unneeded --remove-section=.comment {} +
    find "$site" -type f -exec chmod 644 {} +
    # Where an administrator adds plugins; a folder that is not there is no part of the path.
    echo /usr/local/lib/ioassay >"$site/plugins.pth"
    install -m 755 "$parts/ioassay" "$tree/usr/bin/ioassay"
    kernel=$tree/usr/share/jupyter/kernels/ioassay
    mkdir -p "$kernel"
    sed "s/@PYTHON@/$python/" "$parts/kernel.json" >"$kernel/kernel.json"
}

# What the program says of itself: manual and completions.
ask_program() {
    PYTHONPATH=$site PYTHONDONTWRITEBYTECODE=1 .venv/bin/python -S -m ioassay "$@"
}

lay_out_documents() {
    documents=$tree/usr/share/doc/ioassay
    completions=$tree/usr/share/bash-completion/completions
    mkdir -p "$documents/examples" "$tree/usr/share/man" "$completions" "$tree/usr/share/zsh/vendor-completions" \
        "$tree/usr/share/fish/vendor_completions.d"
    ask_program --manual "$tree/usr/share/man/man1" >>"$log"
    gzip -9n "$tree"/usr/share/man/man1/*.1
    ask_program --show-completion bash >"$completions/ioassay"
    ask_program --show-completion zsh >"$tree/usr/share/zsh/vendor-completions/_ioassay"
    ask_program --show-completion fish >"$tree/usr/share/fish/vendor_completions.d/ioassay.fish"
    maintainer="${DEBFULLNAME:-The ioassay developers} <${DEBEMAIL:-ioassay@example.org}>"
    printf 'ioassay (%s) %s; urgency=medium\n\n  * See changelog.gz for what is new.\n\n -- %s  %s\n' \
        "$version" "$suite" "$maintainer" "$(date -R -d "@$SOURCE_DATE_EPOCH")" |
        gzip -9n >"$documents/changelog.Debian.gz"
    gzip -9n <CHANGELOG.md >"$documents/changelog.gz"
    .venv/bin/python "$parts/copyright.py" "$tree" >"$documents/copyright"
    cp examples/systemd/ioassay-nightly* "$documents/examples/"
    mkdir -p "$tree/usr/share/lintian/overrides"
    cp "$parts/lintian-overrides" "$tree/usr/share/lintian/overrides/ioassay"
}

write_control() {
    control=$tree/DEBIAN
    mkdir -p "$control"
    mkdir -p "$work/debian" && printf 'Source: ioassay\n\nPackage: ioassay\nArchitecture: any\n' >"$work/debian/control"
    find "$site" -type f -name '*.so*' >"$work/libraries"
    libraries=$(cd "$work" && tr '\n' '\0' <libraries |
        xargs -0 dpkg-shlibdeps -O --ignore-missing-info "-l$site/numpy.libs" 2>>"$log" |
        sed -n 's/^shlibs:Depends=//p')
    [ "$libraries" ] || fail_with_log 'finding the libraries of the system that the package needs'
    for part in control postinst prerm; do
        sed -e "s/@VERSION@/$version/; s/@PYTHON@/$python/; s/@NEXT_PYTHON@/$next_python/" \
            -e "s/@MAINTAINER@/$maintainer/; s/@LIBRARIES@/$libraries/" \
            -e "s/@SIZE@/$(du -k --apparent-size -s "$tree/usr" | cut -f 1)/" "$parts/$part" >"$control/$part"
    done
    chmod 755 "$control/postinst" "$control/prerm"
    (cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$control/md5sums"
}

pack() {
    find "$tree" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
    package=$folder/ioassay_${version}_$architecture.deb
    # xz is what policy allows; its higher levels take minutes for a tenth less.
    step "packing" dpkg-deb --root-owner-group -Zxz -z1 --build "$tree" "$package"
    printf '%s\n' "$package"
}

main "$@"
