# shellcheck shell=sh disable=SC2154
# The system packages: what is looked for, what it is called in Debian, and how it gets installed.
#
# Only what is missing is installed, nothing is ever removed or upgraded for its own sake, and where all is there
# neither root nor sudo is asked for.

# Each line: what shows that it is there (a command, or a path with a slash), the package, what it is for.
run_packages='
fio                                 fio              the tool that makes the load
losetup                             mount            to find what lies under a loop device
/etc/ssl/certs/ca-certificates.crt  ca-certificates  so that cargo can fetch crates
'
# Installed if possible; without them ./ioassay does less, and says so.
wanted_packages='
clang      clang          BPF programs, which watch what the kernel does; without them only its counters are read
stress-ng  stress-ng      loads of single subsystems: the driver stress_ng
db_bench   rocksdb-tools  a database as a load: the driver db_bench
fusermount3  fuse3        the virtual drive as a file, for users other than root
'
# ./check installs these if it can; a test that misses one is skipped with the reason.
check_packages='
chromium    chromium     tests that open the report
shellcheck  shellcheck   linter of the shell scripts
zsh         zsh          a shell that completes our commands
fish        fish         another
mandoc      mandoc       a checker of the pages of the manual
groff       groff-base   the typesetter that shows them
man         man-db       and their reader
git         git          tests that look at what is tracked
mkfs.ext4   e2fsprogs    tests that mount a file system on a loop device
mkfs.btrfs  btrfs-progs  a file system over several devices
mkfs.xfs    xfsprogs     another file system
sfdisk      fdisk        partition tables
strace      strace       tests of watching a command with strace
iostat      sysstat      tests of rates beside those of iostat and mpstat
blkparse    blktrace     what the reader of its input is held to, in tests
bpftrace    bpftrace     what it costs beside the witness, in benches
mdadm       mdadm        signatures of RAID members
dmsetup     dmsetup      device mapper holders
qemu-img    qemu-utils   a client of the virtual drive by NBD
nbdcopy     libnbd-bin   another
openssl     openssl      certificates for clients of NBD with TLS
nbdkit      nbdkit       a server of NBD to compare with, in benches
/usr/bin/busybox    busybox-static   what runs in a machine whose kernel is a client of the drive
qemu-system-x86_64  qemu-system-x86  that machine
nvme        nvme-cli     asks the drive from within it
blkzone     util-linux   and about its zones
debootstrap debootstrap  a bare root, in which our package is installed
lintian     lintian      a checker of packages
dpkg-shlibdeps       dpkg-dev  what builds them
buildah     buildah      a builder of container images
'

PATH=$PATH:/usr/sbin:/sbin # where Debian keeps mkfs, losetup and mdadm, and where a user's PATH does not look

# install_packages GOAL   where something is missing; stops unless all that ./ioassay needs is there afterwards
install_packages() {
    missing=$(missing_packages "$run_packages")
    can_link || missing="$missing gcc libc6-dev"
    [ -z "$missing" ] || apt_install_or_fail "$missing"
    wanted=$(missing_packages "$wanted_packages")
    [ -z "$wanted" ] || apt_install_if_possible "$wanted" "./ioassay watches or loads less without"
    remember_clang
    [ "$1" = check ] || return 0
    wanted=$(missing_packages "$check_packages")
    [ -z "$wanted" ] || apt_install_if_possible "$wanted" "tests will be skipped that need"
}

# A kernel for the tests' guests (tests/guest/kernel.py), unpacked and never installed. Without it those tests are
# skipped with the reason.
fetch_guest_kernel() {
    [ "$1" = check ] && command -v qemu-system-x86_64 >/dev/null && command -v apt-get >/dev/null || return 0
    [ -d "$state/guest-kernel" ] || say "fetching a kernel for tests, once"
    quietly .venv/bin/python tests/guest/kernel.py && return
    # The lists of packages may be empty, or as old as a kernel that has been replaced since.
    can_install && quietly apt_update && quietly .venv/bin/python tests/guest/kernel.py && return
    say "could not fetch a kernel (see $log); tests will be skipped that need it"
}

# What the tests of our package need, for this system's suite: the wheels that go into it, and a bare root with what it
# depends on, in .setup/debian. Making a root needs root, and without one the tests are skipped with the reason.
fetch_debian() {
    # shellcheck source=/dev/null
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    case $suite:$(uname -m) in bookworm:x86_64 | trixie:x86_64) ;; *) return 0 ;; esac
    quietly sh setup/debian-package.sh "$suite" --fetch || say "could not fetch the wheels of a package (see $log)"
    bare=$state/debian/$suite
    [ ! -e "$bare" ] && [ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null || return 0
    say "making a bare root of $suite for tests, once"
    rm -rf "$bare.new"
    if quietly debootstrap --variant=minbase --include=fio,python3,man-db,bash-completion "$suite" "$bare.new"; then
        mv "$bare.new" "$bare"
    else
        say "could not make it (see $log); tests will be skipped that need it"
    fi
}

# So that a start after clang was installed builds again (setup/ready.sh).
remember_clang() {
    if command -v clang >/dev/null; then rm -f "$state/no-clang"; else true >"$state/no-clang"; fi
}

# missing_packages TABLE   the packages of the lines whose command or path is not there
missing_packages() {
    printf '%s' "$1" | while read -r sign package _; do
        case $sign in
        '') continue ;;
        /*) [ -e "$sign" ] && continue ;;
        *) command -v "$sign" >/dev/null && continue ;;
        esac
        printf ' %s' "$package"
    done
}

# A compiler without the C library's start files cannot link, which is all that cargo asks of it.
can_link() {
    case $(cc -print-file-name=Scrt1.o 2>/dev/null) in
    /*) true ;;
    *) false ;;
    esac
}

apt_install_or_fail() {
    command -v apt-get >/dev/null ||
        fail "missing:$1 (these are Debian's names, and there is no apt-get here):" \
            "install what corresponds to them and start again"
    become_root || fail "missing:$1. Installing needs root, and sudo $sudo_trouble." \
        "Run as root: apt-get install$1"
    # shellcheck disable=SC2086 # a list of words
    step "installing system packages, once:$1" apt_install $1
}

# apt_install_if_possible PACKAGES LOSS   says what could not be had, and what is lost without it, and goes on
apt_install_if_possible() {
    if ! can_install; then
        say "not installed:$1; $2 them"
        return
    fi
    say "installing system packages, once:$1"
    # shellcheck disable=SC2086 # a list of words
    quietly apt_install $1 || for package in $1; do
        quietly apt_install "$package" || say "could not install $package (see $log); $2 it"
    done
}

# Lists of packages are fetched only where the ones that are there do not serve.
apt_install() {
    apt_get install "$@" && return
    as_root dpkg --configure -a # an installation that was interrupted blocks all others
    apt_update && apt_get install "$@"
}

apt_update() {
    for pause_s in 5 15 30 0; do # just after boot, Debian's own timer may hold the lock of the lists
        as_root apt-get -q update && return
        sleep "$pause_s"
    done
    return 1
}

# Without the lock (file descriptor 9): a daemon that some package starts would keep it for ever.
apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -q -y --no-install-recommends \
        --no-remove -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 "$@" 9>&-
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_install() {
    command -v apt-get >/dev/null && become_root
}

# become_root   true where commands can be run as root; asks for the password only at a terminal
become_root() {
    [ "$(id -u)" -ne 0 ] || return 0
    sudo_trouble='is not installed'
    command -v sudo >/dev/null || return 1
    sudo_trouble='wants a password, which only a terminal can be asked for'
    sudo -n true 2>/dev/null && return 0
    [ -t 0 ] && [ -t 2 ] || return 1
    sudo_trouble='refused'
    say "sudo is needed to install system packages"
    sudo -v
}
