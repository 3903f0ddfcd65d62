from tables import Table, read

TEXT = "town,people,note\nUlm,120,\nOslo,700,\"big, cold\"\nBath,90,\nUlm,5,again\n"


def probe_read():
    table = read(TEXT)
    return [table.names, table.rows]


def probe_quotes():
    return [read('a,b\n"say ""hi""",2\n').rows, read('a\n"two\nlines"\n').rows, read('a,b\n"",x\n').rows]


def probe_quotes_inside_a_field():
    return read('a\n5" pipe\n').rows


def probe_line_ends():
    return [read("a,b\r\n1,2\r\n").rows, read("a,b\n1,2").rows, read("a,b\n\n1,2\n\n").rows, read("a,b\n1,").rows]


def probe_other_separators():
    return [read("a;b\n1,5;2\n", ";").rows, read("a\tb\n1\t2\n", "\t").rows]


def probe_nothing():
    return read("")


def probe_ragged():
    try:
        read("a,b\n1,2\n3\n")
    except ValueError as error:
        return str(error)


def probe_no_such_column():
    return read(TEXT).column("river")


def probe_numbers():
    return [read(TEXT).numbers("people"), read("a,b\n1,x\n ,y\n2.5,z\n").numbers("a")]


def probe_where():
    return [read(TEXT).where("town", "Ulm").rows, read(TEXT).where("town", "ulm").rows]


def probe_sorted():
    table = read(TEXT)
    return [
        [row[1] for row in table.sorted_by("people").rows],
        [row[1] for row in table.sorted_by("town").rows],
        [row[1] for row in table.sorted_by("town", reverse=True).rows],
        [row[1] for row in table.rows],
    ]


def probe_totals():
    return [list(read(TEXT).totals("town", "people").items()), read("k,v\na,\na,2\n").totals("k", "v")]


def probe_show():
    return [read(TEXT).show(), Table(["a"], []).show()]
