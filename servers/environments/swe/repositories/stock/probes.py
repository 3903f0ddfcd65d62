from stock import NotEnough, Order, Warehouse, allocate


def _house():
    house = Warehouse()
    house.bring("bolt", 10, 5)
    house.bring("nut", 4, 2)
    house.bring("bolt", 10, 7)
    house.bring("bolt", 3, 0)
    return house


def probe_costs():
    house = _house()
    return [house.take("bolt", count) for count in (1, 9, 1, 11, 1)] + [house.count("bolt"), house.value()]


def probe_one_lot_exactly():
    house = _house()
    return [house.take("bolt", 10), house.take("bolt", 10), house.count("bolt")]


def probe_nothing_is_taken_when_it_is_not_enough():
    house = _house()
    try:
        house.take("nut", 5)
    except NotEnough as error:
        return [str(error), house.count("nut"), house.value(), house.log]


def probe_take_nothing():
    return [_house().take("bolt", 0), Warehouse().take("bolt", 0)]


def probe_an_empty_lot():
    return _house().bring("nut", 0, 1)


def probe_a_negative_price():
    return _house().bring("nut", 1, -1)


def probe_log():
    house = _house()
    house.take("nut", 3)
    return house.log


def probe_value():
    return [_house().value(), Warehouse().value()]


def probe_below():
    house = _house()
    return [house.below({"bolt": 24, "nut": 10, "gear": 1}), house.below({"bolt": 23, "nut": 4}), house.below({})]


def probe_allocate():
    orders = [Order("a", 3, 2), Order("b", 4, 1), Order("c", 2, 9, urgent=True), Order("d", 5, 1)]
    return [sorted(allocate(available, orders).items()) for available in (0, 1, 2, 7, 11, 14, 99)]
