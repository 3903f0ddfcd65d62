"""A table of texts."""


class Table:
    def __init__(self, names, rows):
        self.names = list(names)
        self.rows = [list(row) for row in rows]

    def column(self, name):
        """Raises KeyError for a name that is not there."""
        if name not in self.names:
            raise KeyError(name)
        index = self.names.index(name)
        return [row[index] for row in self.rows]

    def numbers(self, name):
        """The column's numbers; empty fields are left out."""
        return [float(field) for field in self.column(name) if field.strip()]

    def where(self, name, value):
        return Table(self.names, [row for row, field in zip(self.rows, self.column(name)) if field == value])

    def sorted_by(self, name, reverse=False):
        """Sorted as numbers when every field of the column is one, else as text. Equal rows keep their order."""
        fields = self.column(name)
        try:
            keys = [float(field) for field in fields]
        except ValueError:
            keys = fields
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)
        return Table(self.names, [self.rows[index] for index in order])

    def totals(self, by, of):
        """The sum of column `of` for each value of column `by`, in order of first appearance."""
        sums = {}
        for key, field in zip(self.column(by), self.column(of)):
            sums[key] = sums.get(key, 0.0) + float(field or 0)
        return sums

    def show(self):
        """Columns as wide as their widest field, two spaces apart, without spaces at the end of a line."""
        lines = [self.names, *self.rows]
        widths = [max(len(line[index]) for line in lines) for index in range(len(self.names))]
        padded = ("  ".join(field.ljust(width) for field, width in zip(line, widths)) for line in lines)
        return "\n".join(line.rstrip() for line in padded)
