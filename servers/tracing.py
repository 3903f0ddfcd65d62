"""Spans of seeds, calls and verifies for OpenTelemetry (extra `otel`); nothing of it is imported where nobody asked.

A `traceparent` header is the parent of what its request does; that of a WebSocket's handshake, of all that the socket
does. What an environment's code traces is a child of its call. Where spans go, how many are sampled, and what the
service is called, is said by OpenTelemetry's own variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_SAMPLER`,
`OTEL_SERVICE_NAME` ...). A span carries names and outcomes: no handle, no arguments, no row data, no tool text.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextvars import Token
from typing import TYPE_CHECKING, Any

from opentelemetry import context, trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from .answers import Answer, Refused
from .types import Failure
from .version import package_version

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from .session import Session

Application = Callable[[Any, Any, Any], Awaitable[None]]
CARRIED = frozenset((b"traceparent", b"tracestate"))


class Tracing:
    """The tracer of a process. `close` sends what is left."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("gymwire", package_version())
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def exporting(cls, exporter: SpanExporter | None = None) -> Tracing:
        """Spans are sent in batches, by a thread of its own; to OTLP over HTTP where nothing else is said."""
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        if exporter is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter()
        name = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "gymwire"}
        provider = TracerProvider(resource=Resource.create({**name, "service.version": package_version()}))
        provider.add_span_processor(BatchSpanProcessor(exporter))
        return cls(provider)

    def close(self) -> None:
        self._provider.shutdown()

    def begin(self, what: str, environment: str, wire: str) -> Span:
        """Begin a span; it is the parent of all that runs until its end."""
        attributes = {"gymwire.environment": environment, "gymwire.wire": wire}
        span = self._tracer.start_span(f"{what} {environment}", attributes=attributes, kind=trace.SpanKind.SERVER)
        return Span(span)

    def carried(self, app: Application) -> Application:
        """The application, with every request under its `traceparent`."""

        async def carrying(scope: Any, receive: Any, send: Any) -> None:
            found = {key.decode(): value.decode("latin-1") for key, value in scope.get("headers", ()) if key in CARRIED}
            if not found:
                await app(scope, receive, send)
                return
            token = context.attach(self._propagator.extract(found))
            try:
                await app(scope, receive, send)
            finally:
                context.detach(token)

        return carrying

    @staticmethod
    def ids() -> dict[str, str]:
        """The running trace and span, as logs name them."""
        running = trace.get_current_span().get_span_context()
        if not running.is_valid:
            return {}
        return {"trace_id": trace.format_trace_id(running.trace_id), "span_id": trace.format_span_id(running.span_id)}


class Span:
    """A span that runs, until `end_of`."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._token: Token[Any] = context.attach(trace.set_span_in_context(span))

    def end_of(self, session: Session | None) -> None:
        """The end; of which session is known by now, if there is one."""
        if session is not None:
            self._name(session)
            self._failed(session.failure)
        context.detach(self._token)
        self._span.end()

    def _name(self, session: Session) -> None:
        self._span.set_attribute("gymwire.session_id", session.id)
        if episode_id := session.about.episode_id:
            self._span.set_attribute("gymwire.episode_id", episode_id)

    def answered(self, tool: str, answer: Answer) -> None:
        """`tool` is one that is offered: what else a policy calls is its own text."""
        if tool:
            self._span.set_attribute("gymwire.tool", tool)
        self._span.set_attribute("gymwire.code", answer.code.value)

    def scored(self, session: Session) -> None:
        outcome = session.outcome
        if outcome is not None:
            self._span.set_attribute("gymwire.ending", outcome.ending.value)
            if outcome.reward is not None:
                self._span.set_attribute("gymwire.reward", outcome.reward)

    def refused(self, refused: Refused) -> None:
        self._span.set_attribute("gymwire.code", refused.code.value)
        self._failed(refused.failure)

    def _failed(self, failure: Failure | None) -> None:
        """Our side broke: that alone is an error; what a policy does is not."""
        if failure is not None:
            self._span.set_attribute("gymwire.failure_kind", failure.kind)
            self._span.set_attribute("gymwire.failure_stage", failure.stage)
            self._span.set_status(trace.StatusCode.ERROR, failure.kind)
