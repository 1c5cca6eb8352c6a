"""The chat template of our own tokenizers, in the Jinja dialect of Hugging Face.

A message is `<|role|>content<|end|>`; the generation prompt is `<|assistant|>`. What stands inside
`{% generation %}` is what the assistant writes and fine-tuning trains: content and end of turn.
"""

from __future__ import annotations

DEFAULT_CHAT_TEMPLATE = """\
{%- for message in messages -%}
    {%- if message['role'] not in ['system', 'user', 'assistant', 'tool'] -%}
        {{- raise_exception('roles are system, user, assistant and tool') -}}
    {%- endif -%}
    {{- '<|' + message['role'] + '|>' -}}
    {%- if message['role'] == 'assistant' -%}
        {%- generation -%}
            {{- message['content'] + '<|end|>' -}}
        {%- endgeneration -%}
    {%- else -%}
        {{- message['content'] + '<|end|>' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|assistant|>' -}}
{%- endif -%}
"""
