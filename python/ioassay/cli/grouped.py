"""Help of a command with many options: under a heading for each panel, in the order in which they are declared."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

REST = "Options"


class Grouped(TyperCommand):
    """A command whose options say with `rich_help_panel` where they belong; those that do not, come last."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the options by heading."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                is_argument = param.param_type_name == "argument"
                panel = "Arguments" if is_argument else getattr(param, "rich_help_panel", None) or REST
                panels.setdefault(panel, []).append(record)
        rest = panels.pop(REST, None)
        for panel, records in [*panels.items(), *([(REST, rest)] if rest else [])]:
            with formatter.section(panel):
                formatter.write_dl(records)
