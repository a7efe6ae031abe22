"""ioassay studies: the built-in studies, and the JSON Schema of a study for editors."""

from __future__ import annotations

from typing import Annotated

from ioassay.cli import console, options, syntax


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("studies")(studies)


def studies(
    schema: Annotated[bool, syntax.option("--schema", "Print the JSON Schema of a study file.")] = False,
    json: options.Json = False,
) -> None:
    """List the built-in studies.

    Examples: ioassay studies; ioassay studies --schema
    """
    from ioassay.study import catalog, plan

    console.use_json(json)
    if schema:
        console.emit(catalog.schema())
        return
    suites = catalog.available()
    rows = [
        {
            "name": suite.name,
            "title": suite.title,
            "trials": sum(plan.count(suite).values()),
            "about": suite.description,
        }
        for suite in suites
    ]
    if json:
        console.emit({"studies": rows})
        return
    console.table(["name", "trials", "title"], [[str(row[key]) for key in ("name", "trials", "title")] for row in rows])
