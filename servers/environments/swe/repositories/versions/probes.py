from versions import bump, choose, compare, fits, parse


def probe_parse():
    numbers, tag = parse(" v2.0.10-beta.2 ")
    return [list(numbers), tag, parse("0.0.0")[1]]


def probe_not_a_version():
    return parse("1.2")


def probe_compare():
    pairs = [
        ("1.10.0", "1.9.9"), ("1.0.0", "1.0.0"), ("1.0.0-rc.1", "1.0.0"), ("1.0.0-alpha", "1.0.0-beta"),
        ("1.0.0-beta.2", "1.0.0-beta.11"), ("1.0.0-1", "1.0.0-a"), ("1.0.0-a", "1.0.0-a.1"), ("v1.0.0", "1.0.0"),
        ("2.0.0-a", "1.9.9"),
    ]
    return [compare(*pair) for pair in pairs] + [compare(second, first) for first, second in pairs]


def probe_bump():
    return [bump("1.2.3", part) for part in ("major", "minor", "patch")] + [
        bump("1.2.3-rc.1", "patch"), bump("1.2.3-rc.1", "minor"), bump("9.9.9", "patch"), bump("v0.1.0", "major"),
    ]


def probe_no_such_part():
    return bump("1.2.3", "micro")


def probe_carets():
    versions = ("1.2.2", "1.2.3", "1.9.0", "2.0.0", "2.0.0-rc.1", "0.2.3")
    return [fits(version, "^1.2.3") for version in versions] + [
        fits(version, "^0.2.3") for version in ("0.2.2", "0.2.9", "0.3.0", "1.0.0")
    ]


def probe_tildes():
    return [fits(version, "~1.2.3") for version in ("1.2.2", "1.2.3", "1.2.99", "1.3.0", "2.2.3")]


def probe_two_limits():
    return [fits(version, ">=1.2.0 <1.5.0") for version in ("1.1.9", "1.2.0", "1.4.9", "1.5.0", "1.3.0-a")]


def probe_signs():
    return [[fits("1.2.3", sign + other) for other in ("1.2.2", "1.2.3", "1.2.4")] for sign in (">", "<", ">=", "<=", "=", "")]


def probe_trial_versions():
    return [fits("1.0.0-a", wanted) for wanted in ("1.0.0-a", "=1.0.0-a", ">=0.1.0", "*", "1.0.0-b")] + [fits("1.0.0", "*")]


def probe_choose():
    versions = ["1.9.0", "1.10.0", "1.2.0", "2.0.0-rc.1", "0.3.0"]
    return [choose(versions, wanted) for wanted in ("^1.0.0", "*", ">=2.0.0", "~1.9.0", "<1.0.0", "2.0.0-rc.1")]
