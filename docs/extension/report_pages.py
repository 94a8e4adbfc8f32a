"""What is said of every column and every warning, from the code that makes them."""

from gibbs_dp.auditing.summary import CAUTIONS
from gibbs_dp.papers.attack import trial
from gibbs_dp.papers.capacity import on_average as capacity
from gibbs_dp.quantities.registry import COLUMNS
from pages import escaped, write_page


def columns():
    """A list of all columns."""
    lines = []
    for column in COLUMNS.values():
        unit = f", {column.unit}" if column.unit else ""
        title = f", in the table: *{escaped(column.title)}*" if column.title else ""
        lines.append(f"`{column.name}`{unit}{title}\n: {escaped(column.meaning)}\n")
    return "\n".join(lines)


def warnings():
    """A heading for every warning."""
    parts = []
    for group, cautions in (CAUTIONS | trial.CAUTIONS | capacity.CAUTIONS).items():
        parts.append(f"## {group}\n")
        parts += [
            f"### {caution.name}\n\n> {escaped(caution.example)}\n\n"
            f"{escaped(caution.meaning)}\n\n**What to do.** {escaped(caution.remedy)}\n"
            for caution in cautions
        ]
    return "\n".join(parts)


def write(app):
    write_page(app, "columns.txt", columns())
    write_page(app, "warnings.txt", warnings())


def setup(app):
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
