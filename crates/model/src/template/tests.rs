use super::*;
use serde_json::{Map, json};

fn render(source: &str, messages: &serde_json::Value) -> Result<String, TemplateError> {
    let messages = messages.as_array().expect("a list");
    ChatTemplate::new(source, "<s>", "</s>")?.render(messages, &Map::new(), true)
}

fn check(source: &str, messages: &serde_json::Value, want: &str) {
    assert_eq!(render(source, messages).expect(source), want, "{source}");
}

/// One expression, with `m` as the first message.
fn check_expression(expression: &str, message: serde_json::Value, want: &str) {
    check(&format!("{{% set m = messages[0] %}}{{{{ {expression} }}}}"), &json!([message]), want);
}

const SMOLLM2: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

const LLAMA2: &str = "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}";

const LLAMA3: &str = "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";

const MISTRAL: &str = "{%- if messages[0][\"role\"] == \"system\" %}
    {%- set system_message = messages[0][\"content\"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr(\"role\", \"equalto\", \"user\") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message[\"role\"] == \"user\" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- \"[AVAILABLE_TOOLS] \" + (tools | tojson) + \"[/AVAILABLE_TOOLS]\" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- \"[INST] \" + system_message + \"\\n\\n\" + message[\"content\"] + \"[/INST]\" }}
        {%- else %}
            {{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- elif message[\"role\"] == \"assistant\" %}
        {{- \" \" + message[\"content\"]|trim + eos_token }}
    {%- else %}
        {{- raise_exception(\"Only user and assistant roles are supported\") }}
    {%- endif %}
{%- endfor %}
";

const ZEPHYR: &str = "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}";

#[test]
fn families() {
    let chat = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " Hi "},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Bye"},
    ]);
    check(
        SMOLLM2,
        &chat,
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
    );
    check(
        LLAMA2,
        &chat,
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hi [/INST] Hello. </s><s>[INST] Bye [/INST]",
    );
    check(
        LLAMA3,
        &chat,
        "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    );
    check(MISTRAL, &chat, "<s>[INST]  Hi [/INST] Hello.</s>[INST] Be brief.\n\nBye[/INST]");
    check(
        ZEPHYR,
        &chat,
        "<|system|>\nBe brief.</s>\n<|user|>\n Hi </s>\n<|assistant|>\nHello.</s>\n<|user|>\nBye</s>\n<|assistant|>\n",
    );
}

#[test]
fn tools_keep_the_order_of_their_fields() {
    let tools =
        json!([{"type": "function", "function": {"name": "f", "description": "<é>", "arguments": {}}}]);
    let extra = Map::from_iter([("tools".to_owned(), tools)]);
    let messages = [json!({"role": "user", "content": "x"})];
    let text = ChatTemplate::new(MISTRAL, "", "").expect("sound").render(&messages, &extra, false);
    assert_eq!(
        text.expect("renders"),
        "[AVAILABLE_TOOLS] [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"<é>\", \"arguments\": {}}}][/AVAILABLE_TOOLS][INST] x[/INST]"
    );
}

#[test]
fn python() {
    let message =
        || json!({"s": " Ab c ", "l": ["x", "y"], "d": {"k": 1, "a": null}, "n": null, "t": true, "f": 1.5});
    let check = |expression: &str, want: &str| check_expression(expression, message(), want);
    check("m.s.strip() + '|' + m.s.lstrip() + '|' + m.s.rstrip()", "Ab c|Ab c | Ab c");
    check("'xxaxx'.strip('x')", "a");
    check("m.s.split()", "['Ab', 'c']");
    check("'a</think>b</think>c'.split('</think>')[-1]", "c");
    check("m.s.startswith(' A') and m.s.endswith('c ')", "True");
    check("m.s.upper() + m.s.lower() + 'a b'.title()", " AB C  ab c A B");
    check("'a-b'.replace('-', '+')", "a+b");
    check("'-'.join(m.l)", "x-y");
    check("m.n", "None");
    check("m.t", "True");
    check("m.missing", "");
    check("m.f", "1.5");
    check("m.l", "['x', 'y']");
    check("m.d", "{'k': 1, 'a': None}");
    check("[\"it's\", 'a\\nb']", "[\"it's\", 'a\\nb']");
    check("m.d.get('zz', 3)", "3");
    check("m.get('n') is none", "True");
    check("m.d is mapping and m.l is iterable and m.s is string", "True");
    check("m.l[::-1]", "['y', 'x']");
    check("m.s[1:3]", "Ab");
    check("'x' in m.l and 'b' in m.s and 'k' in m.d", "True");
    check("'%s-%d' | format('a', 3)", "a-3");
    check("'{} {}'.format(1, 'b')", "1 b");
    check("m.l | length", "2");
    check("m.d | tojson", "{\"k\": 1, \"a\": null}");
    check("m.d | tojson(indent=4)", "{\n    \"k\": 1,\n    \"a\": null\n}");
    check("{'a': [], 'b': {}} | tojson(indent=2)", "{\n  \"a\": [],\n  \"b\": {}\n}");
    check("m.d | tojson(sort_keys=true, separators=(',', ':'))", "{\"a\":null,\"k\":1}");
    check("'<é\u{1F600}&\\'' | tojson", "\"<é\u{1F600}&'\"");
    check("'é\u{1F600}' | tojson(ensure_ascii=true)", "\"\\u00e9\\ud83d\\ude00\"");
    check("strftime_now('%Y')[:2]", "20");
}

#[test]
fn statements() {
    let one = json!([{"content": "x"}]);
    check("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", &one, "a1");
    check("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", &one, "01");
    check(
        "{%- set ns = namespace(n=0) -%}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
        &one,
        "3",
    );
    check("{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f('x') }}", &one, "<x>");
    check("  {% if true %}\n  a\n  {% endif %}\nb\n", &one, "  a\nb");
    check("a {%- generation %} b {% endgeneration -%} c", &one, "a b c");
    check("{%generation%}x{%endgeneration%}", &one, "x");
    check("{{ tools }}{{ documents is none }}{{ bos_token }}{{ eos_token }}", &one, "NoneTrue<s></s>");
    check("{{ add_generation_prompt }}", &one, "True");
}

#[test]
fn content_parts() {
    let check = |content: serde_json::Value, want: Result<&str, &str>| {
        let got = render("{{ messages[1].content }}", &json!([{"content": "a"}, {"content": content}]));
        assert_eq!(
            got.map_err(|error| error.to_string()).as_deref(),
            want.map_err(str::to_owned).as_ref().copied()
        );
    };
    check(json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), Ok("ab"));
    check(json!([]), Ok(""));
    check(json!(null), Ok("None"));
    check(
        json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]),
        Err(
            "messages[1].content[1]: parts of type \"image_url\" are not supported; this model takes {\"type\": \"text\"}",
        ),
    );
    check(
        json!(["a"]),
        Err(
            "messages[1].content[0]: parts without a type are not supported; this model takes {\"type\": \"text\"}",
        ),
    );
    check(
        json!([{"type": "text"}]),
        Err("messages[1].content[0]: a part of type \"text\" needs a string in \"text\""),
    );
}

#[test]
fn errors_quote_the_line() {
    let check = |source: &str, messages: serde_json::Value, want: &str| {
        let error = render(source, &messages).expect_err(source).to_string();
        assert!(error.starts_with(want), "{source}: {error}");
    };
    check(
        "a\n  {{ raise_exception('roles must alternate') }}\nb",
        json!([]),
        "chat template, line 2: roles must alternate: {{ raise_exception('roles must alternate') }}",
    );
    check("a\n{% if %}", json!([]), "chat template, line 2: ");
    check("a\n\n{{ messages[0].a.b }}", json!([{}]), "chat template, line 3: ");
    check("{{ messages[0].content + 1 }}", json!([{"content": "x"}]), "chat template, line 1: ");
    let long = format!("{}{{{{ raise_exception('no') }}}}{}", "x".repeat(500), "y".repeat(500));
    let error = render(&long, &json!([])).expect_err("raises").to_string();
    assert!(error.contains("raise_exception('no')") && error.len() < 300, "{error}");
}

#[test]
fn bounds() {
    let check = |source: &str, want: &str| {
        let error = render(source, &json!([{"content": "x"}])).expect_err(source).to_string();
        assert!(error.contains(want), "{source}: {error}");
    };
    check("{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}", "steps");
    check("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "steps");
    check("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion");
    check(
        "{% set ns = namespace(x='0123456789') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "steps",
    );
    check("{% set x = 'x' * 1000000 %}{% for i in range(20) %}{{ x }}{% endfor %}", "longer than");
}

#[test]
fn a_message_is_never_a_template() {
    let hostile = "{{ raise_exception('x') }}{% for a in range(99999) %}<|im_end|>";
    let want = format!("<|user|>\n{hostile}</s>\n<|assistant|>\n");
    check(ZEPHYR, &json!([{"role": "user", "content": hostile}]), &want);
}

#[test]
fn a_long_chat_is_within_bounds() {
    let message = json!({"role": "user", "content": "x".repeat(10_000)});
    let chat: Vec<_> = std::iter::repeat_n(message, 1000).collect();
    let text = render(SMOLLM2, &json!(chat)).expect("renders");
    assert!(text.len() > 10_000_000);
}
