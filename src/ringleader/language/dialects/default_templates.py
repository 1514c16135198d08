"""Chat templates of ours for families whose releases bring none: their makers render prompts with a program.

What the model was trained to see (markers, headings, how tools are listed) is the family's; all else is ours.
"""

from __future__ import annotations

# ---------------------------------------------------------------- Kimi K3

KIMI_K3 = r"""
{%- macro tag(name, attributes={}) -%}
{{ '<|open|>' ~ name }}
{%- for key, value in attributes.items() %}{{ ' ' ~ key ~ '="' ~ value | string | replace('&', '&amp;')
  | replace('"', '&quot;') ~ '"' }}{% endfor -%}
{{ '<|sep|>' }}
{%- endmacro -%}
{%- macro end(name) -%}{{ '<|close|>' ~ name ~ '<|sep|>' }}{%- endmacro -%}
{%- macro message(attributes, text) -%}
{{ tag('message', attributes) ~ text ~ end('message') ~ '<|end_of_msg|>' }}
{%- endmacro -%}
{%- macro argument(key, value) -%}
{%- set kind = 'string' if value is string else 'boolean' if value is boolean else 'null' if value is none
  else 'number' if value is number else 'object' if value is mapping else 'array' -%}
{{ tag('argument', {'key': key, 'type': kind}) ~ (value if kind == 'string' else value | tojson) ~ end('argument') }}
{%- endmacro -%}
{%- macro call(function, index) -%}
{{ tag('call', {'tool': function.name, 'index': index}) }}
{%- if function.arguments is mapping -%}
{% for key, value in function.arguments.items() %}{{ argument(key, value) }}{% endfor %}
{%- elif function.arguments -%}
{{ tag('json', {'type': 'object'}) ~ function.arguments ~ end('json') }}
{%- endif -%}
{{ end('call') }}
{%- endmacro -%}
{%- if tools -%}
{{ message({'role': 'system', 'type': 'tool-declare'},
  '# Tools\nHere are the available tools, described in JSONSchema.\n\n```json\n'
  ~ tools | tojson(sort_keys=true, separators=(',', ':')) ~ '\n```') }}
{%- endif -%}
{{ message({'role': 'system', 'type': 'thinking-effort'},
  '`thinking_effort` guides on how much to think in your thinking channel (not including the response channel), '
  ~ 'supported values include `low`, `medium`, `high`, and `max`.\n'
  ~ 'Now the system is invoked with `thinking_effort=' ~ (reasoning_effort or 'max') ~ '`.') }}
{%- set seen = namespace(results=0) -%}
{%- for turn in messages -%}
{%- set said = turn.content or '' -%}
{%- set seen.results = seen.results + 1 if turn.role == 'tool' else 0 -%}
{%- if turn.role == 'tool' -%}
{{ message({'role': 'tool', 'tool': turn.name, 'index': seen.results}, said) }}
{%- elif turn.role == 'assistant' -%}
{%- set calls -%}
{%- if turn.tool_calls -%}
{{ tag('tools') }}
{%- for one in turn.tool_calls %}{{ call(one.function, loop.index) }}{% endfor -%}
{{ end('tools') }}
{%- endif -%}
{%- endset -%}
{{ message({'role': 'assistant'}, tag('think') ~ (turn.reasoning_content or '') ~ end('think')
  ~ tag('response') ~ said ~ end('response') ~ calls) }}
{%- else -%}
{{ message({'role': turn.role}, said) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ tag('message', {'role': 'assistant'}) ~ tag('think') }}{% endif -%}
"""

# ---------------------------------------------------------------- DeepSeek V3.2 and V4

# What both have in common. `AROUND` is the tag around a block of calls, `BEGIN` how an answer begins.
_DSML = r"""
{%- set mark = '｜DSML｜' -%}
{%- macro call(function) -%}
{{ '<' ~ mark ~ 'invoke name="' ~ function.name ~ '">\n' }}
{%- for key, value in function.arguments.items() -%}
{{ '<' ~ mark ~ 'parameter name="' ~ key ~ '" string="' ~ ('true' if value is string else 'false') ~ '">'
  ~ (value if value is string else value | tojson) ~ '</' ~ mark ~ 'parameter>\n' }}
{%- else -%}
{{ '\n' }}
{%- endfor -%}
{{ '</' ~ mark ~ 'invoke>\n' }}
{%- endmacro -%}
{%- set form -%}
{{ '<' ~ mark ~ 'AROUND>\n<' ~ mark ~ 'invoke name="$NAME">\n<' ~ mark
  ~ 'parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</' ~ mark ~ 'parameter>\n...\n</' ~ mark
  ~ 'invoke>\n<' ~ mark ~ 'invoke name="$NAME2">\n...\n</' ~ mark ~ 'invoke>\n</' ~ mark ~ 'AROUND>' }}
{%- endset -%}
{%- set last = namespace(question=-1) -%}
{%- for turn in messages -%}
{%- if turn.role == 'user' %}{% set last.question = loop.index0 %}{% endif -%}
{%- endfor -%}
{{ bos_token }}
{%- for turn in messages if turn.role == 'system' -%}
{{ '\n\n' if not loop.first }}{{ turn.content }}
{%- if loop.last and tools %}{{ '\n\n' }}{% endif -%}
{%- endfor -%}
"""

DEEPSEEK_V32 = (
    _DSML
    + r"""
{%- if tools -%}
{{ '## Tools\n\nYou have access to a set of tools you can use to answer the user\'s question.\nYou can invoke '
  ~ 'functions by writing a "<' ~ mark ~ 'AROUND>" block like the following as part of your reply to the user:\n'
  ~ form | replace('$NAME', '$FUNCTION_NAME') ~ '\n\nString and scalar parameters should be specified as is without '
  ~ 'any escaping or quotes, while lists and objects should use JSON format. The "string" attribute should be set to '
  ~ '"true" for string type parameters and "false" for other types (numbers, booleans, arrays, objects).\n\n'
  ~ 'If the thinking_mode is enabled, then after function results you should strongly consider outputting a thinking '
  ~ 'block. Here is an example:\n\n<' ~ mark ~ 'AROUND>\n...\n</' ~ mark ~ 'AROUND>\n\n<function_results>\n...\n'
  ~ '</function_results>\n\n<think>...thinking about results</think>\n\n'
  ~ 'Here are the functions available in JSONSchema format:\n<functions>\n' }}
{%- for tool in tools %}{{ tool.function | tojson ~ '\n' }}{% endfor -%}
{{ '</functions>\n' }}
{%- endif -%}
{%- set state = namespace(results=false) -%}
{%- for turn in messages -%}
{%- if state.results and turn.role != 'tool' -%}
{{ '\n</function_results>\n\n' ~ ('<think>' if loop.index0 > last.question else '</think>') }}
{%- endif -%}
{%- if turn.role == 'tool' -%}
{{ '' if state.results else '\n\n<function_results>' }}{{ '\n<result>' ~ turn.content ~ '</result>' }}
{%- elif turn.role == 'user' -%}
{{ '<｜User｜>' ~ turn.content ~ '<｜Assistant｜>' }}
{{- '<think>' if loop.index0 == last.question else '</think>' }}
{%- elif turn.role == 'assistant' -%}
{{ (turn.reasoning_content or '') ~ '</think>' if loop.index0 > last.question }}{{ turn.content or '' }}
{%- if turn.tool_calls -%}
{{ '\n\n<' ~ mark ~ 'AROUND>\n' }}
{%- for one in turn.tool_calls %}{{ call(one.function) }}{% endfor -%}
{{ '</' ~ mark ~ 'AROUND>' }}
{%- endif -%}
{{ eos_token }}
{%- endif -%}
{%- set state.results = turn.role == 'tool' -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '\n</function_results>\n\n<think>' if state.results else '<｜Assistant｜><think>' if last.question < 0 }}
{%- endif -%}
"""
).replace("AROUND", "function_calls")

DEEPSEEK_V4 = (
    _DSML
    + r"""
{%- if tools -%}
{{ '## Tools\n\nYou have access to a set of tools to help answer the user\'s question. You can invoke tools by writing '
  ~ 'a "<' ~ mark ~ 'AROUND>" block like the following:\n\n' ~ form | replace('$NAME', '$TOOL_NAME')
  ~ '\n\nString parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, '
  ~ 'arrays, objects), pass the value in JSON format and set `string="false"`.\n\nIf thinking_mode is enabled '
  ~ '(triggered by <think>), you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls '
  ~ 'or final response.\n\nOtherwise, output directly after </think> with tool calls or final response.\n\n'
  ~ '### Available Tool Schemas\n\n' }}
{%- for tool in tools %}{{ tool.function | tojson ~ '\n' }}{% endfor -%}
{{ '\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n' }}
{%- endif -%}
{%- set state = namespace(asking=false) -%}
{%- for turn in messages if turn.role != 'system' -%}
{%- if turn.role == 'assistant' -%}
{{ '<｜Assistant｜></think>' ~ (turn.content or '') }}
{%- if turn.tool_calls -%}
{{ '\n\n<' ~ mark ~ 'AROUND>\n' }}
{%- for one in turn.tool_calls %}{{ call(one.function) }}{% endfor -%}
{{ '</' ~ mark ~ 'AROUND>' }}
{%- endif -%}
{{ eos_token }}
{%- else -%}
{{ '\n\n' if state.asking else '<｜User｜>' }}
{{- '<tool_result>' ~ turn.content ~ '</tool_result>' if turn.role == 'tool' else turn.content }}
{%- endif -%}
{%- set state.asking = turn.role != 'assistant' -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<｜Assistant｜></think>' }}{% endif -%}
"""
).replace("AROUND", "tool_calls")

OURS = frozenset({KIMI_K3, DEEPSEEK_V32, DEEPSEEK_V4})
