"""NBD with TLS by clients that others wrote: libnbd's tools and qemu-img, with certificates that openssl made."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from .drives import require_overhead, served
from .power_cuts import run

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")

SIZE_BYTES = 16 << 20
SERVE = ("--size", "16MiB", "--model", "none", "--transport")


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        made = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=authority")
        run("openssl", *made, "-keyout", folder / "key.pem", "-out", folder / "cert.pem")

    def sign(self, name: str, folder: Path) -> Path:
        """Add a certificate and its key for `name` (server or client), beside the authority's certificate."""
        folder.mkdir(exist_ok=True)
        shutil.copy(self.folder / "cert.pem", folder / "ca-cert.pem")
        request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
        key, certificate = folder / f"{name}-key.pem", folder / f"{name}-cert.pem"
        names = "subjectAltName=DNS:localhost,IP:127.0.0.1\n"
        extensions.write_text(f"{names}extendedKeyUsage={name}Auth\n")
        run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        signs = ("-CA", self.folder / "cert.pem", "-CAkey", self.folder / "key.pem", "-CAcreateserial", "-days", "2")
        run("openssl", "x509", "-req", "-in", request, *signs, "-extfile", extensions, "-out", certificate)
        key.chmod(0o600)
        return folder


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / "ca")


@pytest.fixture(scope="module")
def certificates(authority: Authority) -> Path:
    """Of the server."""
    return authority.sign("server", authority.folder.parent / "server")


@pytest.fixture(scope="module")
def client(authority: Authority) -> Path:
    """Of a client."""
    return authority.sign("client", authority.folder.parent / "client")


def test_libnbd_copies_and_verifies_with_a_certificate(tmp_path: Path, certificates: Path, client: Path) -> None:
    content = os.urandom(SIZE_BYTES)
    (tmp_path / "content").write_bytes(content)
    for way in (f"nbd:tcp:127.0.0.1:0,tls={certificates}", f"nbd:unix:drive.sock,tls={certificates}"):
        with served(tmp_path, *SERVE, way, "--no-calibrate") as drive:
            address = drive.told["nbd"]
            assert address.startswith("nbds")
            if "127.0.0.1" in address:  # libnbd compares names, and of a Unix socket there is none
                address = address.replace("127.0.0.1", "localhost")
            uri = f"{address}{'&' if '?' in address else '/?'}tls-certificates={client}"
            if "socket=" in address:
                uri = uri.replace("nbds+unix:///", "nbds+unix://localhost/")
            assert "protocol: newstyle-fixed with TLS" in run("nbdinfo", uri)
            run("nbdcopy", "--connections=4", tmp_path / "content", uri)
            run("nbdcopy", "--connections=4", uri, tmp_path / "back")
            assert (tmp_path / "back").read_bytes() == content


def test_qemu_converts_with_a_certificate(tmp_path: Path, certificates: Path, client: Path) -> None:
    (tmp_path / "content").write_bytes(os.urandom(SIZE_BYTES))
    with served(tmp_path, *SERVE, f"nbd:tcp:127.0.0.1:0,tls={certificates}", "--no-calibrate") as drive:
        host, _, port = drive.told["nbd"].removeprefix("nbds://").rpartition(":")
        credentials = f"tls-creds-x509,id=tls,dir={client},endpoint=client"
        image = f"driver=nbd,host={host},port={port},tls-creds=tls"
        words = ("qemu-img", "convert", "-n", "-f", "raw", "--object", credentials)
        run(*words, "--target-image-opts", tmp_path / "content", image)
        compared = ("qemu-img", "compare", "--object", credentials, "--image-opts")
        said = run(*compared, image, f"driver=raw,file.driver=file,file.filename={tmp_path / 'content'}")
        assert "identical" in said


def test_clients_of_others_and_without_tls_are_refused_and_the_known_one_is_served(
    tmp_path: Path, certificates: Path, client: Path
) -> None:
    other = Authority(tmp_path / "other")
    stranger = other.sign("client", tmp_path / "stranger")
    shutil.copy(client / "ca-cert.pem", stranger)  # it knows the server, and the server does not know it
    nobody = tmp_path / "nobody"
    nobody.mkdir()
    shutil.copy(client / "ca-cert.pem", nobody)
    with served(tmp_path, *SERVE, f"nbd:tcp:127.0.0.1:0,tls={certificates}", "--no-calibrate") as drive:
        place = drive.told["nbd"].removeprefix("nbds://").replace("127.0.0.1", "localhost")
        for folder in (stranger, nobody):
            said = run("nbdinfo", f"nbds://{place}/?tls-certificates={folder}", fails=True)
            assert "export-size" not in said
        assert "export-size" not in run("nbdinfo", f"nbd://{place}", fails=True)
        mistaken = other.sign("client", tmp_path / "mistaken")  # it knows another server
        run("nbdinfo", f"nbds://{place}/?tls-certificates={mistaken}", fails=True)
        assert "with TLS" in run("nbdinfo", f"nbds://{place}/?tls-certificates={client}")


def test_the_overhead_of_tls_is_measured(tmp_path: Path, certificates: Path) -> None:
    require_overhead(tmp_path, *SERVE, f"nbd:unix:drive.sock,tls={certificates}")
