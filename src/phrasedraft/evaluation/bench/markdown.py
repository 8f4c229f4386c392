"""Tables in Markdown that can be read in a terminal too."""

from collections.abc import Sequence

Row = tuple[str, ...]


def markdown_table(header: Row, rows: Sequence[Row], *, num_left: int = 1) -> str:
    r"""A table with columns padded to one width; all but the first `num_left` are numbers, set to the right.

    >>> print(markdown_table(("method", "ms"), [("plain loop", "55.3"), ("a | b", "7")]))
    | method     |   ms |
    |:-----------|-----:|
    | plain loop | 55.3 |
    | a \| b     |    7 |
    """
    lines = [tuple(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in (header, *rows)]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(header))]
    padded = [
        " | ".join(
            cell.ljust(width) if column < num_left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    rules = [f":{'-' * (w + 1)}" if column < num_left else f"{'-' * (w + 1)}:" for column, w in enumerate(widths)]
    return "\n".join([f"| {padded[0]} |", f"|{'|'.join(rules)}|", *(f"| {line} |" for line in padded[1:])])


def without_empty_columns(header: Row, rows: Sequence[Row]) -> tuple[Row, list[Row]]:
    """The table without the columns that have "-" in every row.

    >>> without_empty_columns(("a", "b"), [("1", "-"), ("2", "-")])
    (('a',), [('1',), ('2',)])
    """
    kept = [column for column in range(len(header)) if any(row[column] != "-" for row in rows)]
    shortened = [tuple(row[column] for column in kept) for row in (header, *rows)]
    return shortened[0], shortened[1:]


def number(value: float | int | None, digits: int = 2) -> str:
    """A figure with so many decimals, "-" where there is none.

    >>> number(1.234), number(None), number(12345.6, 0)
    ('1.23', '-', '12,346')
    """
    return "-" if value is None else f"{value:,.{digits}f}"
