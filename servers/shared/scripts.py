"""What is done in Redis, each in one step of its own. Every script may be run twice: the second time changes nothing.

Times are Redis's own clock in milliseconds, so that replicas need not agree on one. The keys of one session are found
by its id; a Redis Cluster would spread them, so the store is one Redis (with replicas of its own, if you like).

    s:ID    what is known of a session: meta, head, snap (of its environment), version, who works on it (holder,
            until, fence), and who did last (at)         l:ID  its log of calls
    c:…     the id of a caller's own naming: "pending:TOKEN", a session's id, or "" once that is used up
    g:ID    how a session went           live, live:OWNER, expiry: sorted sets
    replicas, signed    who is there, and whose handles may be alive, by fingerprints of keys (`fleet`): sorted sets
    key     what replicas without a key file sign with         id    tells this store from others
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

PREFIX = "gymwire:"
_NOW = "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"


@dataclass(frozen=True, slots=True)
class Script:
    text: str
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())


#: KEYS s l g; ARGV holder, known version, ttl. Answers {fence}, {fence, the record}, {0, wait} or {-1, how it went}.
#: A lock that would last longer than any does was taken before the clock was set back: it is nobody's.
TAKE = Script(
    _NOW
    + """
local known = redis.call('HMGET', KEYS[1], 'holder', 'until', 'version', 'at')
if not known[3] then return {-1, redis.call('GET', KEYS[3]) or ''} end
local left = tonumber(known[2]) - now
if known[1] ~= '' and known[1] ~= ARGV[1] and left > 0 and left <= tonumber(ARGV[3]) then return {0, left} end
local fence = redis.call('HINCRBY', KEYS[1], 'fence', 1)
redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'until', now + ARGV[3])
if known[4] ~= ARGV[1] then redis.call('HSET', KEYS[1], 'at', ARGV[1]) end
if known[3] == ARGV[2] then return {fence} end
local record = redis.call('HMGET', KEYS[1], 'meta', 'head', 'snap')
return {fence, tonumber(known[3]), record[1], record[2], record[3] or '', redis.call('LRANGE', KEYS[2], 0, -1)}
"""
)

#: KEYS s l expiry live live:OWNER; ARGV fence, id, idle, head, snapshot or '', log entry or '', whether it ended.
#: Answers 1, or 0 where another one has taken the session since, -1 where it is gone.
COMMIT = Script(
    _NOW
    + """
local known = redis.call('HMGET', KEYS[1], 'fence', 'done', 'ends')
if not known[1] then return -1 end
if known[2] == ARGV[1] then return 1 end
if known[1] ~= ARGV[1] then return 0 end
if ARGV[4] ~= '' then
    redis.call('HINCRBY', KEYS[1], 'version', 1)
    redis.call('HSET', KEYS[1], 'head', ARGV[4], 'done', ARGV[1], 'holder', '')
    if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'snap', ARGV[5]) end
    if ARGV[6] ~= '' then redis.call('RPUSH', KEYS[2], ARGV[6]) end
    if ARGV[7] == '1' then
        redis.call('HDEL', KEYS[1], 'snap')
        redis.call('ZREM', KEYS[4], ARGV[2])
        redis.call('ZREM', KEYS[5], ARGV[2])
    end
else
    redis.call('HSET', KEYS[1], 'holder', '', 'done', ARGV[1])
end
redis.call('ZADD', KEYS[3], math.min(now + ARGV[3], tonumber(known[3])), ARGV[2])
return 1
"""
)

#: KEYS s l expiry live live:OWNER g c; ARGV fence, id, milliseconds to remember. Answers as COMMIT. A store that is
#: full forgets sessions, and does not remember how they went.
CLOSE = Script(
    """
local fence = redis.call('HGET', KEYS[1], 'fence')
if not fence then return -1 end
if fence ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
for i = 3, 5 do redis.call('ZREM', KEYS[i], ARGV[2]) end
redis.pcall('SET', KEYS[6], 'session_closed', 'PX', ARGV[3])
if KEYS[7] then redis.pcall('SET', KEYS[7], '', 'PX', ARGV[3]) end
return 1
"""
)

#: KEYS live live:OWNER [c]; ARGV id, most, most of an owner, ttl, token.
#: Answers {1, live}, {0, live} when full, {4, live} when the owner's are, {2, id or ''} for a used id, {3} for one
#: that somebody else seeds.
RESERVE = Script(
    _NOW
    + """
if KEYS[3] then
    local known = redis.call('GET', KEYS[3])
    if known and string.sub(known, 1, 8) ~= 'pending:' then return {2, known} end
    if known and known ~= 'pending:' .. ARGV[5] then return {3} end
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
local live = redis.call('ZCARD', KEYS[1])
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
    if live >= tonumber(ARGV[2]) then return {0, live} end
    if tonumber(ARGV[3]) > 0 and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[3]) then return {4, live} end
    live = live + 1
end
redis.call('ZADD', KEYS[1], now + ARGV[4], ARGV[1])
redis.call('ZADD', KEYS[2], now + ARGV[4], ARGV[1])
if KEYS[3] then redis.call('SET', KEYS[3], 'pending:' .. ARGV[5], 'PX', ARGV[4]) end
return {1, live}
"""
)

#: KEYS live live:OWNER [c]; ARGV id, token. A seed that did not come about.
UNRESERVE = Script(
    """
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
if KEYS[3] and redis.call('GET', KEYS[3]) == 'pending:' .. ARGV[2] then redis.call('DEL', KEYS[3]) end
return 1
"""
)

#: KEYS s expiry live live:OWNER [c]; ARGV id, token, meta, head, snapshot, idle, lifetime, owner, remembered.
#: Answers 1, or 0 where the seed took so long that its id is another's by now.
PUT = Script(
    _NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 1 then return 1 end
if KEYS[5] then
    if redis.call('GET', KEYS[5]) ~= 'pending:' .. ARGV[2] then return 0 end
    redis.call('SET', KEYS[5], ARGV[1], 'PX', ARGV[7] + ARGV[9])
end
redis.call('HSET', KEYS[1], 'meta', ARGV[3], 'head', ARGV[4], 'snap', ARGV[5], 'version', 1, 'fence', 0,
    'holder', '', 'at', ARGV[2], 'until', 0, 'ends', now + ARGV[7], 'owner', ARGV[8], 'caller', KEYS[5] or '')
redis.call('ZADD', KEYS[2], now + math.min(ARGV[6], ARGV[7]), ARGV[1])
redis.call('ZADD', KEYS[3], '+inf', ARGV[1])
redis.call('ZADD', KEYS[4], '+inf', ARGV[1])
return 1
"""
)

#: KEYS are s keys, then c keys; ARGV ttl, how many s keys there are, and their fences and tokens in the same order.
RENEW = Script(
    _NOW
    + """
local sessions = tonumber(ARGV[2])
for i, key in ipairs(KEYS) do
    if i <= sessions then
        if redis.call('HGET', key, 'fence') == ARGV[i + 2] then redis.call('HSET', key, 'until', now + ARGV[1]) end
    elseif redis.call('GET', key) == 'pending:' .. ARGV[i + 2] then
        redis.call('PEXPIRE', key, ARGV[1])
    end
end
return 1
"""
)

#: KEYS live, then live:OWNER of each id; ARGV ttl, ids. Reservations whose seeds still run.
KEEP_RESERVED = Script(
    _NOW
    + """
for i = 2, #ARGV do
    for _, key in ipairs({KEYS[1], KEYS[i]}) do redis.call('ZADD', key, 'XX', 'GT', now + ARGV[1], ARGV[i]) end
end
return 1
"""
)

#: KEYS expiry; ARGV idle, ids. Sessions whose clients are there without calling (open sockets).
TOUCH = Script(
    _NOW
    + """
for i = 2, #ARGV do
    local ends = redis.call('HGET', 'gymwire:s:' .. ARGV[i], 'ends')
    if ends then redis.call('ZADD', KEYS[1], 'XX', math.min(now + ARGV[1], tonumber(ends)), ARGV[i]) end
end
return 1
"""
)

#: KEYS expiry live; ARGV most at once, milliseconds to remember. Answers {id, meta, head, whether by lifetime} of each.
SWEEP = Script(
    _NOW
    + """
local over = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])) do
    local key = 'gymwire:s:' .. id
    local known = redis.call('HMGET', key, 'holder', 'until', 'meta', 'head', 'owner', 'caller', 'ends')
    if known[1] and known[1] ~= '' and tonumber(known[2]) > now then
        redis.call('ZADD', KEYS[1], tonumber(known[2]), id)
    else
        redis.call('ZREM', KEYS[1], id)
        redis.call('ZREM', KEYS[2], id)
        if known[3] then
            redis.call('DEL', key, 'gymwire:l:' .. id)
            redis.call('ZREM', 'gymwire:live:' .. known[5], id)
            redis.pcall('SET', 'gymwire:g:' .. id, 'session_expired', 'PX', ARGV[2])
            if known[6] ~= '' then redis.pcall('SET', known[6], '', 'PX', ARGV[2]) end
            over[#over + 1] = {id, known[3], known[4], tonumber(known[7]) <= now and 1 or 0}
        end
    end
end
return over
"""
)

#: KEYS c; ARGV value, milliseconds. A caller's id of a session that its replica keeps, or that is used up.
CLAIM = Script("redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1")

#: KEYS key; ARGV a key of ours. Answers the one that all replicas sign with: the first who asks has brought it.
SIGNING_KEY = Script("redis.call('SET', KEYS[1], ARGV[1], 'NX') return redis.call('GET', KEYS[1])")

#: KEYS key; ARGV milliseconds. The replicas have a key file now: the old key goes once its handles have.
FADE_KEY = Script("if redis.call('PTTL', KEYS[1]) == -1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end return 1")

#: KEYS replicas signed live expiry id; ARGV who asks or '' (who only looks), ttl, fingerprint of its first key,
#: milliseconds that handles of that live or 0 (who signs none yet), an id. Answers {the replicas there, fingerprints of
#: which handles may be alive, live sessions, the store's id}. Writes every half ttl only: a write waits for
#: the disk; a store that is full does without.
BEAT = Script(
    _NOW
    + """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
local signed = redis.call('EXISTS', KEYS[4]) == 1 and redis.call('ZRANGE', KEYS[2], 0, -1) or {}
local function keep(key, member, ttl)
    local known = redis.call('ZSCORE', key, member)
    if not known or tonumber(known) < now + ttl - ARGV[2] / 2 then redis.pcall('ZADD', key, now + ttl, member) end
end
if ARGV[1] ~= '' then keep(KEYS[1], ARGV[1], ARGV[2]) end
if ARGV[4] ~= '0' then
    keep(KEYS[2], ARGV[3], ARGV[4])
    redis.pcall('SET', KEYS[5], ARGV[5], 'NX')
end
local live = redis.call('ZCOUNT', KEYS[3], now, '+inf')
return {redis.call('ZRANGE', KEYS[1], 0, -1), signed, live, redis.call('GET', KEYS[5]) or ''}
"""
)

#: KEYS s keys; ARGV a replica. Answers the places in KEYS of those that another one worked on last, or that are gone.
ELSEWHERE = Script(
    """
local places = {}
for i, key in ipairs(KEYS) do
    if redis.call('HGET', key, 'at') ~= ARGV[1] then places[#places + 1] = i end
end
return places
"""
)

#: KEYS replicas; ARGV who leaves.
LEAVE = Script("return redis.call('ZREM', KEYS[1], ARGV[1])")

SCRIPTS = (
    TAKE, COMMIT, CLOSE, RESERVE, UNRESERVE, PUT, RENEW, KEEP_RESERVED, TOUCH, SWEEP, CLAIM, SIGNING_KEY, FADE_KEY,
    BEAT, ELSEWHERE, LEAVE
)  # fmt: skip
