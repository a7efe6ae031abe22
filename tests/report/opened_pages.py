"""Opens a report's page in the browser of the fixture `browser`, and collects whatever goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def opened(browser: Any, path: Path, **context: Any) -> Iterator[tuple[Any, list[str]]]:
    """The page, once it says that all is drawn, and everything that went wrong."""
    page = browser.new_context(offline=True, **context).new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
    page.on("request", lambda request: None if request.url == path.as_uri() else wrong.append(request.url[:200]))
    page.set_default_timeout(240_000)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-state=drawn]", state="attached")
    yield page, wrong
    page.context.close()
