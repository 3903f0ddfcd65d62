from caches import Lru, Timed


def probe_used_again():
    cache = Lru(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    return [cache.put("c", 3), cache.keys(), cache.get("b"), cache.hits, cache.misses]


def probe_written_again():
    cache = Lru(2)
    cache.put("a", 1)
    cache.put("b", 2)
    return [cache.put("a", 9), cache.put("c", 3), cache.keys(), cache.get("a")]


def probe_peek():
    cache = Lru(2)
    cache.put("a", 1)
    cache.put("b", 2)
    return [cache.peek("a"), cache.peek("z"), cache.put("c", 3), cache.hits, cache.misses]


def probe_one_entry():
    cache = Lru(1)
    return [cache.put("a", 1), cache.put("a", 2), cache.put("b", 3), cache.keys()]


def probe_values_that_look_like_nothing():
    cache = Lru(3)
    cache.put("zero", 0)
    cache.put("none", None)
    return [cache.get("zero", 7), cache.get("none", 7), cache.get("x", 7), cache.hits, cache.misses]


def probe_no_room():
    return Lru(0).keys()


def probe_lifetimes():
    cache = Timed(10)
    cache.put("a", 1, now=0)
    cache.put("b", 2, now=0, lifetime=3)
    cache.put("c", 3, now=0, lifetime=0)
    return [[cache.get(key, now) for key in "abc"] for now in (0, 2, 3, 9, 10)] + [len(cache)]


def probe_renew():
    cache = Timed(10)
    cache.put("a", 1, now=0)
    said = [cache.renew("a", 9), cache.get("a", 18), cache.renew("a", 19), cache.renew("b", 0)]
    return said + [cache.get("a", 19)]


def probe_sweep():
    cache = Timed(5)
    for now, key in enumerate("abcdef"):
        cache.put(key, key, now=now)
    return [cache.sweep(4), cache.sweep(7), len(cache), cache.sweep(7), cache.sweep(100), len(cache)]


def probe_put_renews():
    cache = Timed(5)
    cache.put("a", 1, now=0)
    cache.put("a", 2, now=4)
    return [cache.get("a", 8), cache.get("a", 9)]
