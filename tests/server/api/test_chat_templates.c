/* Conversations as text, against what published templates write (tests/oracle/make_chat.py, which says
 * where each comes from). */
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/daemon.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"
#include "tokenizer/chat_templates.h"
#include "weights/chat.h"
#include "weights/checkpoint.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"chatml",  "qwen2.5",   "qwen3",   "smollm2",      "llama-2",
                                    "llama-3", "llama-3.1", "mistral", "mistral-nemo", "zephyr",
                                    "phi-3",   "phi-3.5",   "gemma",   "gemma-3",      "alpaca"};

static ChatRole role_of(const char *name) {
    return !strcmp(name, "system") ? CHAT_SYSTEM : !strcmp(name, "user") ? CHAT_USER : CHAT_ASSISTANT;
}

/* The text, malloc'ed; NULL when the template refuses the conversation. */
static char *render(const char *name, const ChatWords *words, const ChatMessage *m, int n) {
    const ChatTemplate *t = chat_template_named(name);
    Buffer out = {0};
    ChatFault fault = {.message = -1};
    BUG_ON(!t);
    if (t->render(t, m, n, words, &out, &fault)) {
        CHECK(fault.message >= 0 && fault.message < n && fault.why);
        buffer_free(&out);
        return NULL;
    }
    buffer_append(&out, "", 1);
    return out.data;
}

static void check_case(const cJSON *one) {
    enum { MOST = 16 };
    ChatMessage m[MOST];
    int n = 0;
    const cJSON *message;
    const char *name = json_text(one, "template"), *expected = json_text(one, "text");
    cJSON_ArrayForEach(message, json_at(one, "messages")) {
        REQUIRE(n < MOST);
        m[n++] = (ChatMessage){role_of(json_text(message, "role")), json_text(message, "content")};
    }
    const ChatWords words = {.bos = json_text(one, "bos"),
                             .eos = json_text(one, "eos"),
                             .date = json_text(one, "kwargs.date_string"),
                             .think = !cJSON_IsFalse(json_at(one, "kwargs.enable_thinking"))};
    char *text = render(name, &words, m, n);
    bool same = expected && text ? !strcmp(text, expected) : !expected && !text;
    CHECK_MSG(same, "%s, %d messages:\n%s\nnot\n%s", name, n, text ? text : "(refused)",
              expected ? expected : "(refused)");
    free(text);
}

TEST(chat_templates_are_the_publishers) {
    char *text = test_read_file("tests/server/api/chat_golden.json", NULL);
    cJSON *cases = cJSON_Parse(text);
    const cJSON *one;
    REQUIRE(cJSON_IsArray(cases));
    for (size_t i = 0; i < COUNTOF(names); i++) {
        int n = 0;
        cJSON_ArrayForEach(one, cases) n += !strcmp(json_text(one, "template"), names[i]) && json_text(one, "text");
        CHECK_MSG(n >= 3, "%s has %d cases", names[i], n);
    }
    cJSON_ArrayForEach(one, cases) check_case(one);
    cJSON_Delete(cases);
    free(text);
}

TEST(chat_template_plain) {
    const ChatMessage m[] = {{CHAT_SYSTEM, "Be brief."}, {CHAT_USER, "Hi"}, {CHAT_ASSISTANT, "Yes?"}, {CHAT_USER, ""}};
    char *text = render("plain", &(ChatWords){.bos = "<s>", .eos = "</s>"}, m, 4);
    CHECK(text && !strcmp(text, "system: Be brief.\nuser: Hi\nassistant: Yes?\nuser: \nassistant:"));
    free(text);
}

/* The last answer is gone on with: behind it the text ends, whatever white space it ends with. Without an opening the
 * text ends behind the last message. */
TEST(chat_template_ends) {
    static const ChatMessage m[] = {{CHAT_USER, "Hi \xEF\xB7\x90"}, {CHAT_ASSISTANT, "I say, "}, {CHAT_USER, "What?"}};
    for (size_t i = 0; i < COUNTOF(names); i++) {
        Chat chat = {.form = chat_template_named(names[i]), .words = {.bos = "<s>", .eos = "</s>", .think = true}};
        Buffer texts[3] = {0}, opened = {0};
        ChatFault fault;
        Err err;
        for (int end = 0; end < 3; end++) {
            ChatWords words = chat.words;
            words.end = end == 0 ? CHAT_OPENED : end == 1 ? CHAT_CLOSED : CHAT_UNFINISHED;
            CHECK_MSG(chat_write(&chat, &words, m, 2, &texts[end], &fault, &err) == 0, "%s: %s", names[i], err.msg);
        }
        CHECK_MSG(texts[1].n <= texts[0].n && !memcmp(texts[0].data, texts[1].data, texts[1].n), "%s", names[i]);
        CHECK_MSG(texts[2].n < texts[0].n && !memcmp(texts[0].data, texts[2].data, texts[2].n - 1), "%s: %.*s",
                  names[i], (int)texts[2].n, texts[2].data);
        CHECK_MSG(texts[2].n > 7 && !memcmp(texts[2].data + texts[2].n - 7, m[1].content, 7), "%s", names[i]);
        /* What the opening adds is what every conversation ends with. */
        CHECK(chat_write(&chat, &chat.words, m, 3, &opened, &fault, &err) == 0);
        size_t n = texts[0].n - texts[1].n;
        CHECK_MSG(n <= opened.n && !memcmp(opened.data + opened.n - n, texts[0].data + texts[1].n, n), "%s", names[i]);
        for (int end = 0; end < 3; end++) buffer_free(&texts[end]);
        buffer_free(&opened);
    }
}

/* A template that wants turns says which message is out of turn. */
TEST(chat_template_faults) {
    static const ChatMessage twice[] = {{CHAT_USER, "a"}, {CHAT_USER, "b"}},
                             late[] = {{CHAT_USER, "a"}, {CHAT_ASSISTANT, "b"}, {CHAT_SYSTEM, "c"}},
                             alone[] = {{CHAT_SYSTEM, "a"}};
    static const char *const strict[] = {"llama-2", "mistral", "mistral-nemo", "gemma", "gemma-3", "alpaca"};
    const ChatWords none = {.bos = "", .eos = ""};
    for (size_t i = 0; i < COUNTOF(strict); i++) {
        CHECK_MSG(!render(strict[i], &none, twice, 2), "%s", strict[i]);
        CHECK_MSG(!render(strict[i], &none, late, 3), "%s", strict[i]);
        CHECK_MSG(!render(strict[i], &none, alone, 1), "%s", strict[i]);
    }
}

static void check_source(const char *jinja, const char *name) {
    const ChatTemplate *t = chat_template_recognise(jinja);
    CHECK_MSG(name ? t && !strcmp(t->name, name) : !t, "%s, not %s: %s", t ? t->name : "none", name ? name : "none",
              jinja);
}

/* Whatever is not surely one of the known ones is none: a text that is nearly right would be worse. */
TEST(chat_templates_are_recognised) {
    check_source("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}",
                 "chatml");
    check_source("{{ bos_token }}{{ '<|im_start|>' + m.role + '<|im_end|>' }}", NULL);
    check_source("{{ '<|im_start|>system\nYou are a pirate.<|im_end|>' }}", NULL);
    check_source("{{ '<|im_start|>' }}{{ '<think>' }}{{ '<|im_end|>' }}", NULL);
    check_source(
        "'<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n'",
        "qwen2.5");
    check_source("<|start_header_id|>{{ role }}<|end_header_id|>{{ content | trim }}<|eot_id|>", "llama-3");
    check_source("Today Date: <|start_header_id|>{{ role }}<|end_header_id|>{{ content | trim }}<|eot_id|>", NULL);
    check_source("<<SYS>> {{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}", "llama-2");
    check_source("{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + eos_token}}",
                 "mistral");
    check_source("{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
                 "{{ message['content'] + eos_token + ' ' }}",
                 NULL);
    check_source("'<|user|>' '<|system|>' '<|assistant|>' message['content'] + eos_token", "zephyr");
    check_source("'<|user|>' '<|system|>' '<|assistant|>' '<|end|>'", "phi-3");
    check_source("{{ bos_token }} '<|user|>' '<|system|>' '<|assistant|>' '<|end|>'", NULL);
    check_source("'<start_of_turn>' 'System role not supported' '<end_of_turn>'", "gemma");
    check_source("'<start_of_turn>' + first_user_prefix + '<end_of_turn>'", "gemma-3");
    check_source("### Instruction: ### Response:", NULL);
    check_source("", NULL);
    check_source("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", NULL);

    check_source("'system' and '<|user|>' '<|system|>' '<|assistant|>' '<|end|>' "
                 "{% if message['role'] == 'system' and message['content'] %}",
                 "phi-3.5");
    check_source("'<|im_start|>' 'You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n'",
                 "smollm2");
    check_source("'<|im_start|>' '<think>' 'You are a helpful AI assistant named SmolLM, trained by Hugging Face"
                 "<|im_end|>\n'",
                 NULL);

    /* What calls itself or other files does more than it shows. */
    check_source("{% macro f(m) %}<|im_start|>{{ f(m) }}<|im_end|>{% endmacro %}{{ f(messages) }}", NULL);
    check_source("{% for m in messages recursive %}<|im_start|>{{ loop(m) }}<|im_end|>{% endfor %}", NULL);
    check_source("{% include '/etc/passwd' %}<|im_start|><|im_end|>", NULL);

    /* What does more is longer. */
    char longer[4096] = "<|start_header_id|>{{ role }}<|end_header_id|>{{ content | trim }}<|eot_id|>";
    check_source(longer, "llama-3");
    memset(longer + strlen(longer), ' ', sizeof longer - strlen(longer) - 1);
    check_source(longer, NULL);
}

#define DATE_LINES                                                                                                     \
    "{{- \"Cutting Knowledge Date: December 2023\\n\" }}\n{{- \"Today Date: \" + date_string + \"\\n\\n\" }}\n"
#define TOOLS_NONE "{%- if not tools is defined %}\n    {%- set tools = none %}\n{%- endif %}\n"
#define REST                                                                                                           \
    "{%- set date_string = \"26 Jul 2024\" %}\n{%- set system_message = messages[0]['content']|trim %}\n"              \
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + "            \
    "'<|eot_id|>' }}\n"

/* Copies are in circulation that write no date, or only with a system message, or a line on tools that nobody gave. */
TEST(chat_templates_nearly_llama_3_1) {
    check_source("{{- bos_token }}\n" TOOLS_NONE REST DATE_LINES, "llama-3.1");
    check_source(TOOLS_NONE REST DATE_LINES, NULL);
    check_source("{{- bos_token }}\n" REST DATE_LINES, NULL);
    check_source("{{- bos_token }}\n" TOOLS_NONE REST, NULL);
    check_source("{{- bos_token }}\n" TOOLS_NONE REST "{%- if system_message %}\n" DATE_LINES, NULL);
}

#define QUESTION "{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}\n"
#define TURNS "{%- if (message.role == \"user\") or (message.role == \"system\" and not loop.first) %}\n"
#define THINKING                                                                                                       \
    "        {%- if loop.index0 > ns.last_query_index %}\n            {%- if loop.last or (not loop.last and "         \
    "reasoning_content) %}\n{{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + "   \
    "'\\n</think>\\n\\n' + content.lstrip('\\n') }}\n"
#define PLACE                                                                                                          \
    "    {%- if enable_thinking is defined and enable_thinking is false %}\n"                                          \
    "        {{- '<think>\\n\\n</think>\\n\\n' }}\n"

TEST(chat_templates_nearly_qwen3) {
    check_source("{{- \"# Tools\\n\\nYou are provided with\" }}" QUESTION TURNS THINKING PLACE, "qwen3");
    check_source(QUESTION TURNS THINKING, NULL); /* one that always thinks */
    check_source(QUESTION TURNS PLACE, NULL);
    check_source("{{ '<|im_start|>system\\nYou are Qwen<|im_end|>' }}" QUESTION TURNS THINKING PLACE, NULL);
}

/* ---- what a content may not do ---- */

static const char *const forged[] = {
    "<|im_start|>",    "<|im_end|>",    "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",    "<s>",     "</s>",
    "[INST]",          "[/INST]",       "<|system|>",          "<|user|>",          "<|assistant|>", "<|end|>", "<bos>",
    "<start_of_turn>", "<end_of_turn>", "<|endoftext|>"};

static Tokenizer *with_all_forged(const char *dir) {
    Checkpoint c;
    Err err;
    BUG_ON(checkpoint_open(&c, dir, &err));
    Tokenizer *t = c.tokenizer;
    for (size_t i = 0; i < COUNTOF(forged) && t; i++) {
        if (tokenizer_find_special(t, forged[i]) >= 0) continue;
        Tokenizer *more = tokenizer_with_special(t, forged[i], &err);
        if (t != c.tokenizer) tokenizer_free(t);
        t = more;
    }
    BUG_ON(t == c.tokenizer);
    checkpoint_close(&c);
    return t;
}

/* Special ids of a conversation with this content; its text goes to out. */
static int count_special(const Chat *chat, const Tokenizer *t, const char *content, bool parse, Buffer *out) {
    const ChatMessage m[] = {{CHAT_USER, content}, {CHAT_ASSISTANT, content}, {CHAT_USER, content}};
    TokenList ids = {0};
    ChatFault fault;
    Err err;
    int n = 0;
    CHECK(chat_encode(chat, &chat->words, m, COUNTOF(m), parse, t, &ids, &fault, &err) == 0);
    for (size_t i = 0; i < ids.n; i++) {
        size_t bytes;
        const char *piece = tokenizer_piece(t, ids.ids[i], &bytes);
        n += tokenizer_is_special(t, ids.ids[i]);
        buffer_append(out, piece, bytes);
    }
    buffer_append(out, "", 1);
    token_list_free(&ids);
    return n;
}

TEST(chat_contents_forge_no_turns) {
    const char *dir = test_checkpoint(CHECKPOINT_SMALL);
    Tokenizer *t = with_all_forged(dir);
    Config c = test_config(attention_kind_find("mha"));
    for (size_t i = 0; i < COUNTOF(names); i++) {
        Chat chat;
        Err err;
        REQUIRE(chat_open(&chat, dir, names[i], &c, t, &err) == 0);
        for (size_t f = 0; f < COUNTOF(forged); f++) {
            char benign[64], content[64];
            Buffer plain = {0}, text = {0}, parsed = {0};
            snprintf(benign, sizeof benign, "stone %.*s river", (int)strlen(forged[f]) - 1, forged[f] + 1);
            snprintf(content, sizeof content, "stone %s river", forged[f]);
            int none = count_special(&chat, t, benign, false, &plain);
            CHECK_MSG(count_special(&chat, t, content, false, &text) == none, "%s: %s", names[i], forged[f]);
            CHECK_MSG(strstr(text.data, content) && !memchr(text.data, 0xFF, text.n), "%s: %s", names[i], text.data);
            CHECK_MSG(count_special(&chat, t, content, true, &parsed) == none + 3, "%s: %s", names[i], forged[f]);
            CHECK(!strcmp(text.data, parsed.data)); /* the same text, by other tokens */
            buffer_free(&plain);
            buffer_free(&text);
            buffer_free(&parsed);
        }
        chat_close(&chat);
    }
    tokenizer_free(t);
}
