from priorities import Queue, order, waves

NEEDS = {"roof": ["walls"], "walls": ["floor"], "door": ["walls", "wood"], "paint": ["roof", "door"], "bell": []}


def _taken(queue):
    out = []
    try:
        while True:
            out.append(queue.take())
    except IndexError:
        return out


def probe_urgency():
    queue = Queue()
    for name, urgency in (("a", 1), ("b", 3), ("c", 1), ("d", -2), ("e", 3), ("f", 0)):
        queue.put(name, urgency)
    return _taken(queue)


def probe_names_of_any_kind():
    queue = Queue()
    for name in (3, "x", None, (1, 2)):
        queue.put(name)
    return _taken(queue)


def probe_dropped():
    queue = Queue()
    numbers = [queue.put(name, urgency) for name, urgency in (("a", 2), ("b", 9), ("c", 2), ("d", 1))]
    queue.drop(numbers[1])
    queue.drop(numbers[3])
    sizes = [len(queue)]
    first = queue.take()
    return [numbers, sizes, first, len(queue), _taken(queue), len(queue)]


def probe_put_after_take():
    queue = Queue()
    queue.put("a")
    queue.take()
    numbers = [queue.put("b"), queue.put("c", 1)]
    return [numbers, _taken(queue)]


def probe_order():
    return [order(NEEDS), order({}), order({"z": ["y"], "y": ["x"]}), order({"b": [], "a": []})]


def probe_the_needs_stay_as_they_were():
    needs = {"b": {"a"}, "a": set()}
    order(needs)
    return sorted(needs["b"])


def probe_a_loop():
    return order({"a": ["b"], "b": ["a"], "c": []})


def probe_a_loop_by_itself():
    return waves({"a": ["a"]})


def probe_waves():
    return [waves(NEEDS), waves({}), waves({"c": ["a", "b"], "b": ["a"]})]
