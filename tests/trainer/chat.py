"""Chat templates in the manner of known families, and some that cannot be trained with."""

from __future__ import annotations

from gymwire.servers.types import Tool

HERMES_TOOLS = """\
{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
    {{- '\\n</tools>\\nCall one as <tool_call>\\n{"name": ..., "arguments": ...}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
"""

#: Like Qwen3's: only the last turn shows that nothing was thought, and a question hides what was thought before it.
THINKING = (
    HERMES_TOOLS
    + """\
{%- set ns = namespace(asked=-1) %}
{%- for message in messages %}{%- if message.role == 'user' %}{%- set ns.asked = loop.index0 %}{%- endif %}{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- set parts = message.content.split('</think>') %}
        {%- set thought = parts[0].split('<think>')[-1].strip('\\n') if parts | length > 1 else '' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.asked and (loop.last or thought) %}
            {{- '<think>\\n' + thought + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- parts[-1].lstrip('\\n') }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n' if parts[-1].strip() or not loop.first else '' }}
            {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- (call.function.arguments | tojson) + '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user' if messages[loop.index0 - 1].role != 'tool' else '' }}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {{- '<|im_end|>\\n' if loop.last or messages[loop.index0 + 1].role != 'tool' else '' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{{- '<|im_start|>assistant\\n' if add_generation_prompt else '' }}
{{- '<think>\\n\\n</think>\\n\\n' if add_generation_prompt and thinking is defined and not thinking else '' }}
"""
)

#: Like Qwen3-Coder's: a tag for each parameter, and contents trimmed.
CODER = """\
{%- if tools %}
    {{- '<|im_start|>system\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n<function>\\n<name>' + tool.function.name + '</name>\\n' }}
        {{- tool.function.description + '\\n</function>' }}
    {%- endfor %}
    {{- '\\n</tools>\\nCall one as <tool_call>\\n<function=example>\\n...\\n</function>\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' + message.content | trim }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n' if message.content | trim or not loop.first else '' }}
            {{- '<tool_call>\\n<function=' + call.function.name + '>\\n' }}
            {%- for key, value in call.function.arguments | items %}
                {%- set text = value if value is string else value | tojson %}
                {{- '<parameter=' + key + '>\\n' + text + '\\n</parameter>\\n' }}
            {%- endfor %}
            {{- '</function>\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n' if messages[loop.index0 - 1].role != 'tool' else '' }}
        {{- '<tool_response>\\n' + message.content | trim + '\\n</tool_response>\\n' }}
        {{- '<|im_end|>\\n' if loop.last or messages[loop.index0 + 1].role != 'tool' else '' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{{- '<|im_start|>assistant\\n' if add_generation_prompt else '' }}
"""

#: A template that begins the reasoning itself, and keeps all of it.
OPENED = THINKING.replace("loop.index0 > ns.asked and (loop.last or thought)", "true").replace(
    "{{- '<|im_start|>assistant\\n' if add_generation_prompt else '' }}",
    "{{- '<|im_start|>assistant\\n<think>\\n' if add_generation_prompt else '' }}",
)

NO_TOOLS = THINKING.removeprefix(HERMES_TOOLS)
OTHER_CALLS = THINKING.replace('<tool_call>\\n{"name": "', "<|call|>").replace('", "arguments": ', " ")
FORGETFUL = THINKING.replace("(loop.last or thought)", "loop.last")
COUNTING = "{{- '<|im_start|>system\\n' ~ messages | length ~ '<|im_end|>\\n' }}" + THINKING
ENDLESS = "{%- for message in messages %}{{- message.role + ': ' + message.content + '\\n' }}{%- endfor %}"
BROKEN = "{{- raise_exception('no such model') }}"

TOOLS = (
    Tool("lookup", "Show the digit of one key.", {"type": "object", "properties": {"key": {"type": "string"}}}),
    Tool(
        "submit",
        "Submit both digits.",
        {"type": "object", "properties": {"first": {"type": "integer"}, "second": {"type": "integer"}}},
    ),
)
