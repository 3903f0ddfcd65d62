from graphs import both_ways, distance, parts, reachable, way

ROADS = {
    "a": {"b": 4, "c": 1},
    "b": {"d": 1},
    "c": {"b": 2, "d": 5},
    "d": {"e": 3},
    "f": {"a": 1},
    "x": {"y": 2},
}


def probe_ways():
    asked = [("a", "d"), ("a", "e"), ("c", "e"), ("f", "e"), ("a", "a"), ("e", "a"), ("a", "x"), ("q", "q")]
    return [way(ROADS, start, goal) for start, goal in asked]


def probe_fewer_places():
    roads = {"a": {"b": 1, "z": 2}, "b": {"z": 1}, "z": {}}
    return way(roads, "a", "z")


def probe_roads_of_no_length():
    return [distance({"a": {"b": 0}, "b": {"c": 0, "a": 0}}, "a", "c"), distance({"a": {"a": 0}}, "a", "b")]


def probe_negative_roads():
    return distance({"a": {"b": -1}}, "a", "b")


def probe_reachable():
    return [reachable(ROADS, "a"), reachable(ROADS, "x"), reachable(ROADS, "q"), reachable(ROADS, "f")]


def probe_reachable_in_steps():
    return [reachable(ROADS, "f", steps) for steps in (0, 1, 2, 3)]


def probe_both_ways():
    full = both_ways({"a": {"b": 4}, "b": {"a": 1, "c": 2}})
    return [sorted((place, sorted(neighbours.items())) for place, neighbours in full.items())]


def probe_the_map_stays_as_it_was():
    roads = {"a": {"b": 4}, "b": {"a": 1}}
    both_ways(roads)
    return [roads["a"]["b"], roads["b"]["a"]]


def probe_parts():
    return [parts(ROADS), parts({}), parts({"a": {}, "b": {}, "c": {"b": 1}})]
