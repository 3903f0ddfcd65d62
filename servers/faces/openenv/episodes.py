"""OpenEnv's episodes: what a socket or a session id refers to, and what its messages do.

A socket has one episode of its own; POST /reset and `openenv/session/create` register one under an id. An
episode begins with a reset, or, once `openenv/session/create` asked for one, with the first call. Nothing else
begins one: a step without an episode is refused.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ...answers import UNAVAILABLE, Code, Refused, gone
from ...session import LIVE, Session
from ...store import Remembered
from ...types import Failure, FailureKind, Json, Stage
from ..asgi import FaceContext
from .reading import CONTROLS, Action, Beginning, WireError, read_verify
from .shapes import METADATA, call_data, described, end_turn_data, enveloped, gone_data, verdict, verify_data

PRUNE_AT = 256


class Episode:
    """One session at a time, with the id and the step count that its client sees."""

    __slots__ = (
        "attached",
        "begun",
        "closed",
        "episode_id",
        "id",
        "keys",
        "last_used",
        "lock",
        "owner",
        "promised",
        "resumable",
        "session",
        "steps",
    )

    def __init__(self, owner: str, now: float, handle: str = "") -> None:
        self.id, self.owner = handle, owner
        self.session: Session | None = None
        self.promised: Beginning | None = None  # begins with the first call
        self.episode_id: str | None = None
        self.steps = 0
        self.keys: set[str] | None = None
        self.attached = self.closed = self.resumable = False
        self.lock = asyncio.Lock()
        self.last_used = now

    def count(self, key: str | None) -> None:
        """One step more, unless it is a repeat of one that was counted."""
        if key is None:
            self.steps += 1
            return
        if self.keys is None:
            self.keys = set()
        if key not in self.keys:
            self.keys.add(key)
            self.steps += 1

    @property
    def state(self) -> Json:
        return {"episode_id": self.episode_id, "step_count": self.steps}


class Episodes:
    """All episodes of one environment on this wire, and what they can do."""

    def __init__(self, context: FaceContext) -> None:
        self.sessions, self.served = context.sessions, context.served
        self._by_id: dict[str, Episode] = {}
        self._promised: set[str] = set()
        self._gone: Remembered[Code] = Remembered(4096)
        self._prune_at = PRUNE_AT

    def slots(self) -> tuple[int, int]:
        """How many sessions of this environment there may be, and how many more."""
        return self.sessions.slots_of(self.served)

    # ---- finding

    def new(self, owner: str) -> Episode:
        return Episode(owner, self.sessions.now())

    def register(self, owner: str) -> Episode:
        """An episode that later requests name by its id."""
        if len(self._by_id) >= self._prune_at:
            self._prune()
        episode = Episode(owner, self.sessions.now(), self.sessions.signer.new_handle())
        self._by_id[episode.id] = episode
        return episode

    def name(self, episode: Episode) -> str:
        """The episode's id; a socket's own gets one when it is asked for."""
        if not episode.id:
            episode.id = self.sessions.signer.new_handle()
            self._by_id[episode.id] = episode
        return episode.id

    def promise(self, episode: Episode, beginning: Beginning) -> str:
        """Begin the episode with its first call; answers its id. Raises `Refused` when too many wait for theirs."""
        most = self.sessions.limits.max_sessions
        if len(self._promised) >= most and episode.id not in self._promised:
            self._prune()
            if len(self._promised) >= most:
                self._forget(episode, Code.SESSION_CLOSED)
                raise Refused(Code.AT_CAPACITY, "Too many sessions wait for their first call.", retry_after_s=5)
        handle = self.name(episode)
        episode.promised = beginning
        self._promised.add(handle)
        return handle

    def get(self, handle: str, owner: str) -> Episode:
        episode = self._by_id.get(handle)
        if episode is None or episode.owner != owner:
            raise gone(self._gone.get(handle) or Code.SESSION_LOST)
        episode.last_used = self.sessions.now()
        return episode

    def _prune(self) -> None:
        """Forget registered episodes past the idle limit whose sessions are gone, or that the engine has forgotten."""
        oldest = self.sessions.now() - self.sessions.limits.idle_timeout_s
        for episode in list(self._by_id.values()):
            session = episode.session
            if episode.attached or episode.lock.locked():
                continue
            if session is None:
                over = episode.last_used <= oldest
            else:
                over = session.state not in LIVE and (episode.last_used <= oldest or not self._is_kept(session))
            if over:
                self._forget(episode, Code.SESSION_EXPIRED)
        self._prune_at = max(PRUNE_AT, 2 * len(self._by_id))

    def _is_kept(self, session: Session) -> bool:
        return self.sessions.store.get(session.handle) is session

    def _forget(self, episode: Episode, code: Code) -> None:
        self._promised.discard(episode.id)
        if self._by_id.pop(episode.id, None) is not None:
            self._gone.put(episode.id, code)

    # ---- sockets

    def attach(self, episode: Episode) -> None:
        episode.attached = True
        if episode.session is not None:
            episode.session.sockets += 1

    def detach(self, episode: Episode) -> None:
        episode.attached = False
        episode.last_used = self.sessions.now()
        if episode.session is not None:
            episode.session.sockets -= 1
            episode.session.last_used = episode.last_used

    async def resume(self, episode: Episode, handle: str) -> Json:
        """Go on with a session whose socket broke, at whatever replica. Raises `Refused`, `WireError`."""
        async with episode.lock:
            if episode.session is not None or episode.promised is not None or episode.id:
                raise WireError("SESSION_ERROR", "This socket has an episode already.")
            if not self._can_resume:
                raise gone(Code.SESSION_LOST)
            session = await self.sessions.find(handle, self.served, episode.owner)
            if episode.closed:
                raise gone(Code.SESSION_CLOSED)
            session.sockets += int(episode.attached)
            episode.session, episode.resumable = session, True
            episode.episode_id, episode.steps = session.about.episode_id or session.id, len(session.calls)
        return enveloped({"metadata": METADATA[Code.OK]}, 0.0, False, METADATA[Code.OK])

    @property
    def _can_resume(self) -> bool:
        return self.sessions.shared and self.served.environment.replayable

    async def lose(self, episode: Episode) -> None:
        """The socket of an unregistered episode broke under it. Where nobody can come back for a score, it has none."""
        if episode.session is None:
            return
        if episode.resumable:
            session, episode.session = episode.session, None
            await self.sessions.await_return(session)
        else:
            reason = "the client's socket was lost"
            episode.session.fail(Failure(FailureKind.TRANSPORT_PEER_DROP, reason, Stage.TRANSPORT))

    # ---- beginning and closing

    async def begin(self, episode: Episode, beginning: Beginning) -> Json:
        """A reset: closes what was there, seeds, and answers the first observation."""
        async with episode.lock:
            await self._leave(episode)
            session = await self._seed(episode, beginning)
        return self._first_observation(episode, session)

    async def _seed(self, episode: Episode, beginning: Beginning) -> Session:
        episode.promised = None
        self._promised.discard(episode.id)
        request, episode.resumable = beginning.request, bool(beginning.resume) and self._can_resume
        if episode.resumable:
            request = replace(request, caller_id=beginning.resume)
        session = await self.sessions.seed(self.served, request, owner=episode.owner, wire="openenv")
        if episode.closed:
            await self.sessions.close(session)
            raise gone(Code.SESSION_CLOSED)
        session.sockets += int(episode.attached)
        episode.session, episode.steps, episode.keys = session, 0, None
        episode.episode_id = beginning.episode_id if beginning.episode_id is not None else session.id
        return session

    async def _leave(self, episode: Episode) -> None:
        session, episode.session = episode.session, None
        if session is not None:
            await self.sessions.close(session)

    async def close(self, episode: Episode) -> None:
        """Close for good; waits for the call in flight."""
        episode.closed = True
        episode.promised = None
        self._forget(episode, Code.SESSION_CLOSED)
        await self._leave(episode)

    async def ready(self, episode: Episode) -> Session:
        """The session of an episode; what `openenv/session/create` promised is seeded now. Raises `Refused`."""
        if episode.session is not None:
            return episode.session
        if episode.promised is not None:
            async with episode.lock:
                if episode.session is None and episode.promised is not None:
                    await self._seed(episode, episode.promised)
        if episode.session is None:
            text = "No episode has begun here, or its reset was refused: send reset first."
            raise Refused(Code.SESSION_LOST, text)
        return episode.session

    def _first_observation(self, episode: Episode, session: Session) -> Json:
        """Clients that read `tools` as a listing drop the rest of an observation; they keep its metadata."""
        prompt = list(session.prompt)
        metadata: Json = {**METADATA[Code.OK], "prompt": prompt, "max_turns": self.served.environment.max_turns}
        if episode.id:
            metadata["session"] = episode.id
        if episode.resumable:
            metadata["resume"] = session.handle
        inner = {"prompt": prompt, "tools": described(session.tools), "metadata": METADATA[Code.OK]}
        return enveloped(inner, 0.0, False, metadata)

    # ---- steps

    async def step(self, episode: Episode, action: Action) -> Json:
        """A step message: counted, then done."""
        if episode.session is None and action.tool is not None:
            await self.ready(episode)  # a step that is refused for want of an episode does not count
        episode.count(action.key)
        if action.tool is None:
            return self._listing(episode)
        return await self.call(episode, action)

    async def call(self, episode: Episode, action: Action) -> Json:
        """Call a tool, or make a control call. Raises `Refused` where there is no session to ask."""
        tool, arguments, key, control, _ = action
        assert tool is not None
        session = episode.session or await self.ready(episode)
        try:
            if control and tool in CONTROLS:
                return await self._control(session, action)
            answer = await session.call(tool, arguments, key)
        except Refused as refused:
            return gone_data(tool, refused, session.outcome)
        return call_data(tool, answer, session.outcome)

    async def _control(self, session: Session, action: Action) -> Json:
        if action.tool == "verify":
            asked = read_verify(action.decoded)
            return verify_data(await session.verify(asked.messages, asked.ending))
        prompt = await session.end_turn(action.key)
        if session.outcome is not None and session.outcome.masked:
            return call_data("end_turn", UNAVAILABLE, session.outcome)
        return end_turn_data(prompt)

    def tools(self, episode: Episode | None) -> list[Json]:
        session = None if episode is None else episode.session
        return described(self.served.tools if session is None else session.tools)

    def _listing(self, episode: Episode) -> Json:
        metadata: Json = METADATA[Code.OK]
        outcome = None if episode.session is None else episode.session.outcome
        reward = 0.0
        if outcome is not None:
            metadata, reward = metadata | verdict(outcome), outcome.reward
        inner = {"metadata": metadata, "tools": self.tools(episode)}
        return enveloped(inner, reward, outcome is not None, metadata)
