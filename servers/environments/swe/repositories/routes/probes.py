from routes import Router, read_query, write_query


def _router():
    router = Router()
    for pattern in (
        "/", "/users/{name}", "/users/{id:int}", "/users/me", "/users/{id:int}/files/{path:rest}", "/{page}", "/help/{a}/{b}",
        "/help/{x}/index", "/static/{path:rest}",
    ):
        router.add(pattern, pattern)
    return router


def _found(path):
    try:
        handler, values = _router().find(path)
        return [handler, sorted(values.items())]
    except Exception as error:
        return type(error).__name__


def probe_find():
    return [_found(path) for path in ("/", "", "/users/7", "/users/me", "/users/ada", "/about", "/users", "/nothing/here")]


def probe_rest():
    paths = ("/users/7/files/a/b.txt", "/users/7/files", "/users/ada/files/a", "/static", "/static//a//b/", "/static/x")
    return [_found(path) for path in paths]


def probe_fixed_parts_win():
    return [_found("/help/a/index"), _found("/help/a/b"), _found("/help/index/a")]


def probe_slashes():
    return [_found(path) for path in ("//users///7/", "users/7", "/users/7/8", "/users/٣")]


def probe_the_first_of_equals():
    router = Router()
    router.add("/{a}", "first")
    router.add("/{b}", "second")
    return list(router.find("/x"))


def probe_bad_patterns():
    said = []
    for pattern in ("/{a:rest}/b", "/{a}/{a}", "/{a:float}", "/{a:rest}/{b}", "/{a}/{b:rest}", "/x{a}"):
        try:
            Router().add(pattern, 1)
            said.append("added")
        except Exception as error:
            said.append(type(error).__name__)
    return said


def probe_read_query():
    texts = ("", "?a=1", "a=1&b=&a=2", "a", "a=b=c", "&&a=1&", "x=1+2", "x=%41%2b", "x=%C3%BC", "x=%zz%4", "%61=1&a=2", "x=%FF")
    return [sorted(read_query(text).items()) for text in texts]


def probe_write_query():
    asked = [{"b": ["1"], "a": ["x y", "&=%+"]}, {}, {"ü": ["~-._"]}, {"n": [""]}, {"n": []}]
    return [write_query(values) for values in asked]


def probe_query_and_back():
    values = {"a": ["1", "", "x+y z"], "%41": ["ü&="], "b=c": ["?"]}
    return read_query(write_query(values)) == values
