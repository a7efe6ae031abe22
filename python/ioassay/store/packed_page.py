"""Parts of a page that stay compressed until a reader opens them: tables of thousands of rows, the data of charts.

A part is a `<script type="application/gzip">` with base64 of gzip of UTF-8. The page's own script unpacks it
(`report/template/charts.js`); what looks for words in a page unpacks it here. Equal texts give equal parts.
"""

from __future__ import annotations

import base64
import gzip
import re
import zlib

TYPE = "application/gzip"
_PART = re.compile(rf'(<script type="{TYPE}"[^>]*>)([A-Za-z0-9+/=\s]*)</script>')


def packed(text: str) -> str:
    """The text in base64 of gzip. A file name that is not UTF-8 is escaped, as elsewhere on the page."""
    content = text.encode("utf-8", "backslashreplace")
    return base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode()


def unpacked(page: str) -> str:
    """The page with the text of every part in its place. A part that is damaged stays as it is."""
    return _PART.sub(_opened, page)


def _opened(part: re.Match[str]) -> str:
    try:
        return f"{part[1]}{gzip.decompress(base64.b64decode(part[2])).decode('utf-8', 'replace')}</script>"
    except (ValueError, EOFError, OSError, zlib.error):
        return part[0]
