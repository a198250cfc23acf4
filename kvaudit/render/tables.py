"""A table as Markdown, as plain text for a pipe, or drawn for a terminal."""

import io
from collections.abc import Iterable

from kvaudit.model import Table


def markdown(tables: Iterable[Table]) -> str:
    """Return the tables as Markdown sections, ASCII pipes escaped in cells."""
    return "\n".join(f"## {table.title}\n\n{_markdown_table(table)}" for table in tables)


def plain(tables: Iterable[Table]) -> str:
    """Return the tables as aligned columns without colour or frames, one blank line between tables."""
    return "\n".join(_plain_table(table) for table in tables)


def terminal(tables: Iterable[Table], width: int, *, colour: bool, ascii_only: bool) -> str:
    """Return the tables drawn with frames, wrapped to `width` columns."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=width, no_color=not colour, color_system="standard")
    for table in tables:
        drawn = RichTable(
            title=Text(table.title),
            title_justify="left",
            title_style="bold" if colour else "none",
            header_style="bold" if colour else "none",
            box=box.ASCII if ascii_only else box.ROUNDED,
        )
        for column in table.columns:
            drawn.add_column(Text(column), overflow="fold")
        for row in table.rows:
            drawn.add_row(*(Text(cell) for cell in row))
        console.print(drawn)
    return stream.getvalue()


def _plain_table(table: Table) -> str:
    grid = (table.columns, *table.rows)
    widths = [max(len(row[index]) for row in grid) for index in range(len(table.columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in grid]
    return "\n".join([table.title, *(f"  {line}" for line in lines)]) + "\n"


def _markdown_table(table: Table) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    ruler = line("---" for _ in table.columns)
    return "\n".join([line(table.columns), ruler, *(line(row) for row in table.rows)]) + "\n"
