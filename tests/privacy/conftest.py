"""The machine that these tests pretend to run on: it has everything a bundle must not hold, under difficult names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ioassay.host import privacy
from ioassay.host.privacy import Secret

HOSTNAME = "krypton-7"
SERIAL = "S[64]+D.(F)0$"
HOME = "/home/jürgen/my bench"
UUID = "3f1c9a52-7d1e-4b0a-9c55-0a1b2c3d4e5f"
CMDLINE = (
    f"BOOT_IMAGE=/boot/vmlinuz root=UUID={UUID} ro quiet mitigations=off isolcpus=managed_irq,2-7 nvme.poll_queues=4 "
    'cryptdevice="/dev/disk/by-uuid/aa bb:vault-9x" ip=192.0.2.17::192.0.2.1:255.255.255.0 Zm9vYmFyMTIzNDU2Nzg= '
    "systemd.set_credential=password:hunter2-swordfish -- --token tok-31337-abcdef"
)
TREE = {
    "proc/sys/kernel/hostname": f"{HOSTNAME}\n",
    "proc/sys/kernel/ostype": "Linux\n",
    "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
    "proc/cmdline": f"{CMDLINE}\n",
    "etc/machine-id": "0123456789abcdef0123456789abcde0\n",
    "etc/passwd": f"root:x:0:0:root:/root:/bin/sh\njürgen:x:1000:1000:Jürgen Vogelsang,,,:{HOME}:/bin/sh\n",
    "sys/class/block/sda/device/serial": f"{SERIAL}\n",
    "sys/class/block/sda/device/wwid": "naa.5000c500a1b2c3d4\n",
    "sys/class/block/sdb/serial": "12345678\n",
    "sys/class/dmi/id/product_serial": "PX-88-AB12\n",
    "sys/class/net/eth0/address": "52:54:00:ab:cd:ef\n",
    "proc/net/fib_trie": "Local:\n  |-- 192.0.2.17\n     /32 host LOCAL\n  |-- 127.0.0.1\n     /32 host LOCAL\n",
    "proc/net/if_inet6": "20010db8000000000000000000000042 02 40 00 80     eth0\n",
    "dev/disk/by-id/ata-Disk_krypton-7_QX99": Path("../../sda"),
    "dev/disk/by-label/archiv-21": Path("../../sda"),
}
SECRETS = (
    HOSTNAME, HOSTNAME.upper(), SERIAL, SERIAL.lower(), HOME, "jürgen", "Vogelsang", UUID, UUID.upper(),
    "0123456789abcdef0123456789abcde0", "01234567-89ab-cdef-0123-456789abcde0", "naa.5000c500a1b2c3d4",
    "0x5000c500a1b2c3d4", "PX-88-AB12", "52:54:00:ab:cd:ef", "525400ABCDEF", "192.0.2.17", "2001:db8::42",
    "ata-Disk_krypton-7_QX99", "archiv-21", "hunter2-swordfish", "tok-31337-abcdef", "Zm9vYmFyMTIzNDU2Nzg",
    "j\\u00fcrgen", "j%C3%BCrgen", "j%c3%bcrgen/my%20bench",
)  # fmt: skip
"""As they may stand in any text, in several spellings."""


@pytest.fixture
def host(fake_root: Callable[..., Path]) -> Path:
    return fake_root(TREE)


@pytest.fixture
def known(host: Path) -> list[Secret]:
    return privacy.of_host(host)
