"""A table as Markdown, as plain text for a pipe, or drawn for a terminal."""

import io
from collections.abc import Iterable
from dataclasses import dataclass

from kvaudit.model import Table


@dataclass(frozen=True, slots=True)
class Display:
    """Where text will be read: the width of the terminal in columns, or None for a pipe or a file."""

    width: int | None = None
    colour: bool = False
    ascii_only: bool = False


PIPE = Display()


# C0 and C1 controls and the marks that reorder text: a fixture must not be able to write to the terminal with them.
_CONTROLS = {
    code: f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}


def printable(text: str) -> str:
    """Return a text of one line in which control characters are shown as their JSON escapes."""
    return text.translate(_CONTROLS)


def markdown(tables: Iterable[Table]) -> str:
    """Return the tables as Markdown sections, pipes escaped in cells."""
    return "\n".join(f"## {table.title}\n\n{_markdown_table(table)}" for table in tables)


def text(tables: Iterable[Table], display: Display) -> str:
    """Return the tables as the display shows them: aligned columns in a pipe, drawn and wrapped on a terminal."""
    if display.width is None:
        return "\n".join(_plain_table(table) for table in tables)
    return _drawn(tables, display, display.width)


def _drawn(tables: Iterable[Table], display: Display, width: int) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    stream = io.StringIO()
    console = Console(
        file=stream,
        force_terminal=display.colour,
        no_color=not display.colour,
        color_system="standard" if display.colour else None,
        width=width,
        legacy_windows=False,
    )
    for table in tables:
        drawn = RichTable(
            title=Text(table.title),
            title_justify="left",
            title_style="bold" if display.colour else "",
            header_style="bold" if display.colour else "",
            box=box.ASCII if display.ascii_only else box.ROUNDED,
        )
        for column in table.columns:
            drawn.add_column(Text(column), overflow="fold")
        for row in table.rows:
            drawn.add_row(*(Text(printable(cell)) for cell in row))
        console.print(drawn)
    return stream.getvalue()


def _plain_table(table: Table) -> str:
    grid = (table.columns, *(tuple(map(printable, row)) for row in table.rows))
    widths = [max(len(row[index]) for row in grid) for index in range(len(table.columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in grid]
    return "\n".join([table.title, *(f"  {line}" for line in lines)]) + "\n"


def _markdown_table(table: Table) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(printable(cell).replace("|", "\\|") for cell in cells) + " |"

    ruler = line("---" for _ in table.columns)
    return "\n".join([line(table.columns), ruler, *(line(row) for row in table.rows)]) + "\n"
