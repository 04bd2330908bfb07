#include "tokenizer/chat_templates.h"

#include "base/err.h"
#include "base/text.h"
#include "tokenizer/chat_qwen3.h"

#include <string.h>

static int fail(ChatFault *fault, int message, const char *why) {
    *fault = (ChatFault){message, why};
    return -1;
}

/* Bytes of the white space, as Python's str.strip sees it, that text begins with: one character's, 0 for none. */
static size_t white(const char *text) {
    static const char *const wide[] = {"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
                                       "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
                                       "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
                                       "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};
    if (!*text) return 0;
    if (strchr(" \t\n\v\f\r\x1C\x1D\x1E\x1F", *text)) return 1;
    for (size_t i = 0; i < COUNTOF(wide); i++)
        if (text_begins(text, wide[i])) return strlen(wide[i]);
    return 0;
}

/* Jinja's trim: white space of both ends. */
static void append_trimmed(Buffer *out, const char *text) {
    while (white(text)) text += white(text);
    size_t n = strlen(text), length = 1;
    while (n && length <= 3)
        if (length <= n && white(text + n - length) == length)
            n -= length, length = 1;
        else
            length++;
    buffer_append(out, text, n);
}

/* One system message at most, in front; then users and assistants in turn. The index of the first user's. */
static int check_turns(const ChatMessage *m, int n, ChatFault *fault) {
    int first = m[0].role == CHAT_SYSTEM;
    if (first == n) return fail(fault, 0, "a conversation needs a message of the user");
    for (int i = first; i < n; i++)
        if (m[i].role != ((i - first) % 2 ? CHAT_ASSISTANT : CHAT_USER))
            return fail(fault, i, "after an optional system message user and assistant must take turns");
    return first;
}

/* ---- every message between an opening with its role and a closing ---- */

typedef struct Tagged {
    bool bos, trim;
    bool no_empty_system; /* a system message without text is left out */
    const char *roles[3]; /* openings */
    const char *close;    /* NULL: the end-of-text token and a newline */
    const char *answer;   /* opens the next answer */
    const char *system;   /* the whole first message of a conversation without a system message, or NULL */
} Tagged;

static int render_tagged(const ChatTemplate *t, const ChatMessage *m, int n, const ChatWords *words, Buffer *out,
                         ChatFault *fault) {
    const Tagged *form = t->form;
    (void)fault;
    if (form->bos) buffer_text(out, words->bos);
    if (form->system && m[0].role != CHAT_SYSTEM) buffer_text(out, form->system);
    for (int i = 0; i < n; i++) {
        if (form->no_empty_system && m[i].role == CHAT_SYSTEM && !*m[i].content) continue;
        buffer_text(out, form->roles[m[i].role]);
        if (form->trim)
            append_trimmed(out, m[i].content);
        else
            buffer_text(out, m[i].content);
        if (!form->close) buffer_text(out, words->eos);
        buffer_text(out, form->close ? form->close : "\n");
    }
    if (words->end == CHAT_OPENED) buffer_text(out, form->answer);
    return 0;
}

#define CHATML(first)                                                                                                  \
    &(const Tagged) {                                                                                                  \
        .roles = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"}, .close = "<|im_end|>\n",   \
        .answer = "<|im_start|>assistant\n", .system = first                                                           \
    }

#define LLAMA_3(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
static const Tagged llama_3 = {.bos = true,
                               .trim = true,
                               .roles = {LLAMA_3("system"), LLAMA_3("user"), LLAMA_3("assistant")},
                               .close = "<|eot_id|>",
                               .answer = LLAMA_3("assistant")};

static const Tagged zephyr = {.roles = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"}, .answer = "<|assistant|>\n"};

static const Tagged phi_3 = {
    .roles = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"}, .close = "<|end|>\n", .answer = "<|assistant|>\n"};

static const Tagged phi_3_5 = {.no_empty_system = true,
                               .roles = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
                               .close = "<|end|>\n",
                               .answer = "<|assistant|>\n"};

static const Tagged plain = {.roles = {"system: ", "user: ", "assistant: "}, .close = "\n", .answer = "assistant:"};

/* What is said in a novel with a paragraph a line: the user in quotation marks, all else as the model would write it.
 */
static int render_dialogue(const ChatTemplate *t, const ChatMessage *m, int n, const ChatWords *words, Buffer *out,
                           ChatFault *fault) {
    (void)t, (void)words, (void)fault;
    for (int i = 0; i < n; i++) {
        const char *mark = m[i].role == CHAT_USER ? "\"" : "";
        buffer_print(out, "%s", mark);
        buffer_text(out, m[i].content);
        buffer_print(out, "%s\n", mark);
    }
    return 0;
}

/* ---- Llama 3.1, 3.2 and 3.3: a system message with a date in any case ---- */

static int render_llama_3_1(const ChatTemplate *t, const ChatMessage *m, int n, const ChatWords *words, Buffer *out,
                            ChatFault *fault) {
    bool system = m[0].role == CHAT_SYSTEM;
    const ChatWords inside = {.bos = "", .end = words->end};
    buffer_print(out, "%s" LLAMA_3("system") "Cutting Knowledge Date: December 2023\nToday Date: ", words->bos);
    buffer_text(out, words->date ? words->date : "26 Jul 2024");
    buffer_text(out, "\n\n");
    if (system) append_trimmed(out, m[0].content);
    buffer_text(out, llama_3.close);
    return render_tagged(t, m + system, n - system, &inside, out, fault);
}

/* ---- [INST] ---- */

typedef struct Instructed {
    bool bos_each; /* in front of every user's message, not only of the first */
    bool trim;
    const char *open, *close;                               /* around a user's message */
    const char *before, *after;                             /* around an assistant's; the end-of-text token follows */
    enum { SYSTEM_NONE, SYSTEM_FIRST, SYSTEM_LAST } system; /* which user's message it goes into */
    const char *system_open, *system_close;
} Instructed;

static int render_instructed(const ChatTemplate *t, const ChatMessage *m, int n, const ChatWords *words, Buffer *out,
                             ChatFault *fault) {
    const Instructed *form = t->form;
    int first = check_turns(m, n, fault);
    if (first < 0) return -1;
    if (first && form->system == SYSTEM_NONE) return fail(fault, 0, "the model's template has no system message");
    int with_system = !first ? -1 : form->system == SYSTEM_FIRST ? first : n - 1;
    for (int i = first; i < n; i++) {
        bool user = m[i].role == CHAT_USER;
        Buffer text = {0};
        if (i == with_system && user) {
            buffer_text(&text, form->system_open);
            buffer_text(&text, m[0].content);
            buffer_text(&text, form->system_close);
        }
        buffer_text(&text, m[i].content);
        buffer_append(&text, "", 1);
        if (i == first || (user && form->bos_each)) buffer_text(out, words->bos);
        buffer_text(out, user ? form->open : form->before);
        if (form->trim)
            append_trimmed(out, text.data);
        else
            buffer_text(out, text.data);
        buffer_text(out, user ? form->close : form->after);
        if (!user) buffer_text(out, words->eos);
        buffer_free(&text);
    }
    return 0;
}

static const Instructed llama_2 = {.bos_each = true,
                                   .trim = true,
                                   .open = "[INST] ",
                                   .close = " [/INST]",
                                   .before = " ",
                                   .after = " ",
                                   .system = SYSTEM_FIRST,
                                   .system_open = "<<SYS>>\n",
                                   .system_close = "\n<</SYS>>\n\n"};

/* Mistral's first, of 7B Instruct v0.2 and Mixtral, and that of Nemo. */
static const Instructed mistral = {.open = "[INST] ", .close = " [/INST]", .before = "", .after = ""};
static const Instructed mistral_nemo = {.open = "[INST]",
                                        .close = "[/INST]",
                                        .before = "",
                                        .after = "",
                                        .system = SYSTEM_LAST,
                                        .system_open = "",
                                        .system_close = "\n\n"};

/* ---- Gemma: the assistant is called model ---- */

static int render_gemma(const ChatTemplate *t, const ChatMessage *m, int n, const ChatWords *words, Buffer *out,
                        ChatFault *fault) {
    const bool *takes_system = t->form;
    int first = check_turns(m, n, fault);
    if (first < 0) return -1;
    if (first && !*takes_system) return fail(fault, 0, "the model's template has no system message");
    buffer_text(out, words->bos);
    for (int i = first; i < n; i++) {
        buffer_text(out, m[i].role == CHAT_USER ? "<start_of_turn>user\n" : "<start_of_turn>model\n");
        if (i == 1 && first) {
            buffer_text(out, m[0].content);
            buffer_text(out, "\n\n");
        }
        append_trimmed(out, m[i].content);
        buffer_text(out, "<end_of_turn>\n");
    }
    if (words->end == CHAT_OPENED) buffer_text(out, "<start_of_turn>model\n");
    return 0;
}

/* ---- Alpaca ---- */

/* Stanford's prompt for an instruction without input; its data has single turns, further ones are written alike. */
static int render_alpaca(const ChatTemplate *t, const ChatMessage *m, int n, const ChatWords *words, Buffer *out,
                         ChatFault *fault) {
    int first = check_turns(m, n, fault);
    (void)t;
    if (first < 0) return -1;
    buffer_text(out, first ? m[0].content
                           : "Below is an instruction that describes a task. Write a response that appropriately "
                             "completes the request.");
    for (int i = first; i < n; i++) {
        bool user = m[i].role == CHAT_USER;
        buffer_text(out, user ? "\n\n### Instruction:\n" : "\n");
        buffer_text(out, m[i].content);
        buffer_text(out, user ? "\n\n### Response:" : words->eos);
    }
    return 0;
}

/* ---- the table ---- */

/* Special forms come before the general one that they would pass for. */
static const ChatTemplate templates[] = {
    {.name = "qwen2.5",
     .marks = {"<|im_start|>", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>"},
     .without = {"<think>", "bos_token", "vision_start"},
     .ends = {"<|im_end|>", "<|endoftext|>"},
     .longest = 3000,
     .render = render_tagged,
     .form = CHATML(
         "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n")},
    {.name = "smollm2",
     .marks = {"<|im_start|>", "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>"},
     .without = {"<think>", "bos_token", "trim", "tools"},
     .ends = {"<|im_end|>", "<|endoftext|>"},
     .longest = 500,
     .render = render_tagged,
     .form = CHATML("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
                    "<|im_end|>\n")},
    {.name = "qwen3",
     .marks = {"namespace(multi_step_tool=true, last_query_index=messages|length - 1)",
               "{%- if loop.index0 > ns.last_query_index %}\n            {%- if loop.last or (not loop.last and "
               "reasoning_content) %}",
               "'\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n')",
               "(message.role == \"user\") or (message.role == \"system\" and not loop.first)",
               "{%- if enable_thinking is defined and enable_thinking is false %}\n"
               "        {{- '<think>\\n\\n</think>\\n\\n' }}"},
     .without = {"bos_token", "<|im_start|>system\\nYou are"},
     .ends = {"<|im_end|>", "<|endoftext|>"},
     .longest = 4500,
     .render = chat_render_qwen3},
    {.name = "chatml",
     .marks = {"<|im_start|>", "<|im_end|>"},
     .without = {"<think>", "bos_token", "You are ", "trim"},
     .ends = {"<|im_end|>"},
     .longest = 600,
     .render = render_tagged,
     .form = CHATML(NULL)},
    {.name = "llama-3.1",
     .marks =
         {"{{- bos_token }}\n", "{%- if not tools is defined %}\n    {%- set tools = none %}",
          "{%- set date_string = \"26 Jul 2024\" %}", "{%- set system_message = messages[0]['content']|trim %}",
          "\n{{- \"Cutting Knowledge Date: December 2023\\n\" }}\n{{- \"Today Date: \" + date_string + \"\\n\\n\" }}\n",
          "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + "
          "'<|eot_id|>' }}"},
     .without = {"if system_message", "<think>", "You are "},
     .longest = 5000,
     .dated = true,
     .ends = {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"},
     .render = render_llama_3_1,
     .form = &(const Tagged){.trim = true,
                             .roles = {LLAMA_3("system"), LLAMA_3("user"), LLAMA_3("assistant")},
                             .close = "<|eot_id|>",
                             .answer = LLAMA_3("assistant")}},
    {.name = "llama-3",
     .marks = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "trim"},
     .without = {"Today Date", "python_tag", "<think>", "date_string"},
     .ends = {"<|eot_id|>", "<|end_of_text|>"},
     .longest = 600,
     .render = render_tagged,
     .form = &llama_3},
    {.name = "llama-2",
     .marks = {"[INST] ", "<<SYS>>", "bos_token + '[INST] '", "strip()"},
     .longest = 1300,
     .render = render_instructed,
     .form = &llama_2},
    {.name = "mistral",
     .marks = {"'[INST] '", "' [/INST]'", "bos_token", "message['content'] + eos_token}}"},
     .without = {"<<SYS>>", "system", "[AVAILABLE_TOOLS]"},
     .longest = 700,
     .render = render_instructed,
     .form = &mistral},
    {.name = "mistral-nemo",
     .marks = {"\"[INST]\"", "\"[/INST]\"", "[AVAILABLE_TOOLS]", "message[\"content\"] + eos_token"},
     .without = {"[SYSTEM_PROMPT]"},
     .longest = 5000,
     .render = render_instructed,
     .form = &mistral_nemo},
    {.name = "zephyr",
     .marks = {"<|user|>", "<|system|>", "<|assistant|>", "message['content'] + eos_token"},
     .without = {"<|end|>", "bos_token", "trim"},
     .longest = 600,
     .render = render_tagged,
     .form = &zephyr},
    {.name = "phi-3.5",
     .marks = {"message['role'] == 'system' and message['content'] %}", "<|user|>", "<|assistant|>", "<|end|>"},
     .without = {"bos_token", "trim", "tools", "<|im_sep|>"},
     .ends = {"<|end|>", "<|endoftext|>"},
     .longest = 600,
     .render = render_tagged,
     .form = &phi_3_5},
    {.name = "phi-3",
     .marks = {"<|user|>", "<|system|>", "<|assistant|>", "<|end|>"},
     .without = {"bos_token", "trim", "tools", "<|im_sep|>"},
     .ends = {"<|end|>", "<|endoftext|>"},
     .longest = 600,
     .render = render_tagged,
     .form = &phi_3},
    {.name = "gemma",
     .marks = {"<start_of_turn>", "<end_of_turn>", "System role not supported"},
     .ends = {"<end_of_turn>"},
     .longest = 800,
     .render = render_gemma,
     .form = &(const bool){false}},
    {.name = "gemma-3",
     .marks = {"<start_of_turn>", "<end_of_turn>", "first_user_prefix"},
     .ends = {"<end_of_turn>"},
     .longest = 2000,
     .render = render_gemma,
     .form = &(const bool){true}},
    {.name = "alpaca", .render = render_alpaca}, /* its publisher wrote no Jinja */
    {.name = "dialogue",
     .marks = {"'\"' + message['content'] + '\"\\n'", "message['content'] + '\\n'"},
     .longest = 200,
     .stop = "\n",
     .render = render_dialogue},
    {.name = "plain", .stop = "\nuser:", .render = render_tagged, .form = &plain},
};

const ChatTemplate *chat_template_named(const char *name) {
    for (size_t i = 0; i < COUNTOF(templates); i++)
        if (!strcmp(templates[i].name, name)) return &templates[i];
    return NULL;
}

static bool is_one(const ChatTemplate *t, const char *jinja) {
    for (size_t i = 0; i < COUNTOF(t->marks) && t->marks[i]; i++)
        if (!strstr(jinja, t->marks[i])) return false;
    for (size_t i = 0; i < COUNTOF(t->without) && t->without[i]; i++)
        if (strstr(jinja, t->without[i])) return false;
    return t->marks[0] && strlen(jinja) <= t->longest;
}

const ChatTemplate *chat_template_recognise(const char *jinja) {
    static const char *const programs[] = {"macro ", "recursive", "include ", "import ", "extends "};
    for (size_t i = 0; i < COUNTOF(programs); i++) /* none of the known ones has any */
        if (strstr(jinja, programs[i])) return NULL;
    for (size_t i = 0; i < COUNTOF(templates); i++)
        if (is_one(&templates[i], jinja)) return &templates[i];
    return NULL;
}

void chat_template_names(Buffer *out) {
    for (size_t i = 0; i < COUNTOF(templates); i++) buffer_print(out, "%s%s", i ? ", " : "", templates[i].name);
}
