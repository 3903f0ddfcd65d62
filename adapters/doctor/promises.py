"""What a server promises, by name. docs/check.md is made of this table."""

from __future__ import annotations

from dataclasses import dataclass

ALL = ("nemo-gym", "openenv", "mcp")
GYM, OPENENV = ("nemo-gym",), ("openenv",)


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing that can be tested of a server."""

    name: str
    means: str  # one sentence, for --list
    why: str
    how: str
    fix: str
    source: str
    wires: tuple[str, ...] = ALL


SESSIONS = "gymwire's session rules (README, `servers/session.py`)"
GYM_WIRE = "NeMo Gym 0.7.0, resources server"
OPENENV_WIRE = "OpenEnv 0.10.0, WebSocket messages and runtime graders"
MCP_WIRE = "MCP 2025-11-25 and 2026-07-28, tools"

_ALL = (
    Promise(
        "shapes",
        "seed, call and verify answer in the wire's own form.",
        "A client that cannot read an answer ends the rollout, or takes it for something else.",
        "One episode: seeded, every tool called once with values made from its schema, verified; statuses and fields "
        "are read.",
        "Answer as the protocol says: the evidence shows which part was missing.",
        f"{GYM_WIRE}; {OPENENV_WIRE}; {MCP_WIRE}",
    ),
    Promise(
        "cookie-kept",
        "The cookie of the seed names the same session until it is verified.",
        "A lost cookie is a lost episode; where the next call begins a fresh one, its score is trained on.",
        "An episode whose cookies are merged as a browser does, compared with the cookies that were set at the seed "
        "alone: both must see the same state.",
        "Set the session's cookie at the seed and never change or delete it.",
        GYM_WIRE,
        GYM,
    ),
    Promise(
        "cookie-repeated",
        "Every answer of a session carries its cookie again.",
        "Agents of NeMo Gym 0.4 keep only the cookies of the last answer.",
        "A tool's answer must set the cookies that the seed set.",
        "Send Set-Cookie on every answer, as NeMo Gym's session middleware does.",
        GYM_WIRE,
        GYM,
    ),
    Promise(
        "own-cookie",
        "Each seed gets a cookie of its own, and a seed on a live cookie begins anew.",
        "Two episodes on one cookie score each other's work.",
        "Two seeds without a cookie must get different ones; an episode that is seeded on the cookie of a played one "
        "must go as a fresh one does.",
        "Make a handle for every seed; on a live cookie, close the old session first.",
        f"{GYM_WIRE}; {SESSIONS}",
        GYM,
    ),
    Promise(
        "isolated",
        "Sessions at the same time do not see each other.",
        "A shared state gives one policy the score of another's work.",
        "Up to 64 sessions at once, each called with values of its own: no answer may hold another's value, and each "
        "must go as it does alone, its reward included. Where every call is an error, nothing can be told.",
        "Keep state by session, not in the module, the class or the app.",
        SESSIONS,
    ),
    Promise(
        "same-task",
        "The same row and seed are the same task.",
        "The members of a GRPO group are compared with each other; on different tasks that is noise.",
        "The same row (place, seed) is seeded twice; prompt, tools and first observation must be equal.",
        "Draw everything random from the row and the seed.",
        "gymwire's design: seeds; TRL's and prime-rl's groups",
    ),
    Promise(
        "repeatable",
        "The same calls of the same task are answered alike and score alike.",
        "Episodes are recovered by replay, and every comparison between runs rests on it. An environment that is "
        "random on purpose breaks it: skip it then.",
        "Two episodes of one row and seed with equal calls.",
        "Draw what is random from the seed, and keep clocks and ids out of answers.",
        SESSIONS,
    ),
    Promise(
        "seed-idempotent",
        "A seed that is repeated under the same caller's id answers the same session.",
        "A seed whose answer was lost is sent again; two sessions would hold two places.",
        "The same id twice; calls through both answers must be one episode's.",
        "Remember sessions by the id that the caller chose.",
        SESSIONS,
    ),
    Promise(
        "call-idempotent",
        "A call that is repeated under its idempotency key is carried out once.",
        "A call whose answer was lost is sent again; acting twice changes the episode.",
        "An episode in which every call is sent twice must go as one in which each is sent once.",
        "Keep the answers of a session by key.",
        SESSIONS,
    ),
    Promise(
        "typed-sessions",
        "Seed and close in the typed form are idempotent, and a closed id stays closed.",
        "NeMo Gym's environment server retries both; a late seed must not bring a closed session back.",
        "The typed seed twice, close twice, and a seed after the close, which must be refused.",
        "Keep the ids that were closed; nemo_gym.testing.session_conformance checks it from inside.",
        GYM_WIRE,
        GYM,
    ),
    Promise(
        "reward",
        "A reward is a finite JSON number.",
        "NaN or a text in a reward ends a training step, or spreads through the batch.",
        "The rewards of verify, its components and (OpenEnv) of every step, read from the answer's text.",
        "Answer a float; where there is none, mask the sample.",
        f"{GYM_WIRE}; {OPENENV_WIRE}",
    ),
    Promise(
        "verify-echo",
        "Verify repeats `responses_create_params` and `response` as they were sent.",
        "verifiers raises KeyError without them; NeMo RL reads the token ids from them.",
        "A verify whose response carries token ids and log-probabilities: all of it must be in the answer.",
        "Answer the request's body back, as BaseVerifyResponse does.",
        GYM_WIRE,
        GYM,
    ),
    Promise(
        "verify-idempotent",
        "A repeated verify answers the same verdict.",
        "A verify whose answer was lost is sent again.",
        "The same verify twice.",
        "Keep the outcome of a session, and answer it again.",
        SESSIONS,
    ),
    Promise(
        "verify-final",
        "A second verify with another answer does not change the verdict.",
        "Whoever may verify twice can try answers until one scores.",
        "A verify, then one with other messages.",
        "Score once; a session that has its outcome keeps it.",
        SESSIONS,
    ),
    Promise(
        "ends-with-verify",
        "A call after verify is refused and changes nothing.",
        "Work after the verdict belongs to no episode; where it is carried out, it meets the next one.",
        "Every tool once more after verify; then verify again.",
        "Refuse calls of a session that has its outcome.",
        SESSIONS,
    ),
    Promise(
        "unknown-handle",
        "A call without a session, or of an unknown one, is refused: it never begins a fresh session.",
        "A lost session that plays on as a fresh one earns a score that is no measurement, and nobody sees it.",
        "Calls without a handle, with a forged and with a damaged one, of every kind that the wire has.",
        "Look sessions up; do not create one where none is found.",
        SESSIONS,
    ),
    Promise(
        "close",
        "A closed session is gone: calls are refused, and closing again succeeds.",
        "A session that stays holds its place, and can still be played.",
        "A session is closed, called, and closed again.",
        "Forget the session when it is closed; let closing what is gone succeed.",
        SESSIONS,
    ),
    Promise(
        "capacity",
        "A full server says so in the wire's form, with a time to come back, and takes sessions again.",
        "A client that is not told waits, or counts the rollout as a failure.",
        "Sessions up to the limit (at most 64) and one more; then one is closed and another begun.",
        "503 with Retry-After (NeMo Gym), CAPACITY_REACHED (OpenEnv), an error with a code (MCP); give the place back "
        "when a session ends.",
        SESSIONS,
    ),
    Promise(
        "abandoned",
        "A session that nobody calls any more is reclaimed at the idle limit, and says so.",
        "Agents that never close (simple_agent, verifiers) would fill the server.",
        "A session is left alone past the idle limit; then it must be refused.",
        "An idle limit that is finite and shorter than a run: gymwire serve --idle-timeout.",
        SESSIONS,
        ("nemo-gym", "mcp"),
    ),
    Promise(
        "control-hidden",
        "What the policy may call holds no call that seeds, grades or closes.",
        "An agent posts whatever name its model emits; a policy that can grade or reseed itself escapes bad scores.",
        "The control calls' names as a policy would call them, in the middle of an episode, which must go on as if "
        "they had not been made.",
        "Ask for a mark that no policy can set (a header, metadata), or for a whole body.",
        SESSIONS,
    ),
    Promise(
        "no-leaks",
        "No answer tells what only the grader may know.",
        "A policy finds a leaked label sooner than any other solution; trainers turn echoed fields into metrics.",
        "The task data of up to five rows is looked for in the answers of seed and verify, and data whose name is that "
        "of an answer in those of tools; what the prompt says is no secret.",
        "Answer what the protocol asks for, and not the row.",
        "NeMo Gym, verifiers: fields of a verify answer",
    ),
    Promise(
        "masked",
        "A failure of the server's side is said in the form that the chosen trainer masks, never as a plain 0.0.",
        "A plain 0.0 teaches the policy that what it did was wrong.",
        "Verify of a session that does not exist, or was closed: the failure that anybody can bring about.",
        "nemo-rl: 200 with instance_config.mask_sample, or 5xx; verifiers, prime-rl: 5xx (gymwire: --masked-as-error, "
        "or the header X-Gymwire-Masked: error).",
        f"{GYM_WIRE}; NeMo RL; verifiers 0.4.0",
    ),
    Promise(
        "bad-arguments",
        "Wrong arguments are an error that the policy can read; the episode goes on.",
        "A 500 counts as the server's failure: a policy could escape a bad score by sending nonsense. An error that "
        "looks like a result teaches nothing.",
        "Arguments that the tool's own schema forbids, and a tool that does not exist.",
        "Check arguments against the schema before the tool runs: 422, isError, error_type.",
        f"{GYM_WIRE}; {MCP_WIRE}",
    ),
    Promise(
        "malformed",
        "A request that is no proper message is refused, and harms nothing.",
        "Half a request is what a lost connection leaves.",
        "Broken JSON, a body of the wrong type, an unknown kind of message; then a proper one.",
        "Answer 4xx (NeMo Gym), an error message (OpenEnv), a JSON-RPC error (MCP).",
        f"{GYM_WIRE}; {OPENENV_WIRE}; {MCP_WIRE}",
    ),
    Promise(
        "tool-names",
        "Tool names fit function calling, come once, and are no control calls.",
        "Endpoints refuse a request with such a tool; of two of one name only one can be called.",
        "The tools of the first row: ^[A-Za-z0-9_-]{1,64}$, unique, not seed_session, verify, close_session …",
        "Rename the tool.",
        "OpenAI function calling",
    ),
    Promise(
        "tool-descriptions",
        "Every tool and every argument is described.",
        "A model guesses what it is not told.",
        "The tools of the first row.",
        "Write the docstring, with an Args section; in a JSON schema, `description`.",
        "OpenAI function calling",
    ),
    Promise(
        "tool-schemas",
        "Parameters are a small, sound JSON schema of type object, without generated titles.",
        "Endpoints and parsers refuse others; titles cost tokens in every prompt.",
        "type object, valid, required names are properties, every property has a type, at most 5 levels, 16 KB and 100 "
        "properties.",
        "Flatten it; drop `title`; say `type`.",
        "OpenAI function calling; JSON Schema 2020-12",
    ),
    Promise(
        "reset-named",
        "A reset begins a new episode, under a new name and with no steps.",
        "A reset that nobody can see mixes two episodes in one score.",
        "reset, two steps, reset: the state must have another episode_id and step_count 0; an id that is given stays.",
        "Make an id at every reset, unless one is given.",
        OPENENV_WIRE,
        OPENENV,
    ),
    Promise(
        "step-count",
        "The state counts the steps exactly.",
        "OpenEnv's graders and clients compare it with their own.",
        "reset, state, then a state after each of three steps.",
        "Count every step of the episode once.",
        OPENENV_WIRE,
        OPENENV,
    ),
    Promise(
        "latency",
        "Calls are answered in time under load.",
        "A rollout waits for the slowest call of its turn.",
        "One tool that answers with a result, from all sessions at once (at most 64), five times each: what is a "
        "result alone must be one then, and the 95th percentile must stay under --max-p95, or ten times the median of "
        "one session alone. Not on a server with a rate limit.",
        "Do not block the event loop; do not serialize sessions that have nothing to do with each other.",
        "bench",
    ),
    Promise(
        "token",
        "Without the token nothing is answered.",
        "Whoever reaches the port could seed, play and grade.",
        "A seed without the token that this examination uses.",
        "gymwire serve --token-file.",
        "docs/threat-model.md",
    ),
    Promise(
        "half-open",
        "A socket whose client no longer answers pings is closed.",
        "A client that vanished without a farewell would hold its place for ever.",
        "A socket with an episode that answers no ping, for 45 seconds.",
        "Let the WebSocket server ping (uvicorn --ws-ping-interval), and end the session with its socket.",
        OPENENV_WIRE,
        OPENENV,
    ),
    Promise(
        "no-tracebacks",
        "No error shows the server's own code.",
        "A policy reads them: paths and sources of the grader.",
        "Every error that the examination was answered is looked through, with what stands beside its text.",
        "Answer a sentence; keep the traceback in the log.",
        "Two kinds of error (README)",
    ),
)  # fmt: skip

PROMISES: dict[str, Promise] = {promise.name: promise for promise in _ALL}
