#include "server/api/chat_templates.h"

#include "base/err.h"

#include <stdbool.h>
#include <string.h>

static int fail(ChatFault *fault, int message, const char *why) {
    *fault = (ChatFault){message, why};
    return -1;
}

/* Jinja's trim: white space of both ends. */
static void append_trimmed(Buffer *out, const char *text) {
    static const char white[] = " \t\n\v\f\r";
    size_t n = strlen(text);
    while (n && strchr(white, text[n - 1])) n--;
    size_t skip = strspn(text, white);
    if (skip < n) buffer_append(out, text + skip, n - skip);
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
        buffer_text(out, form->roles[m[i].role]);
        if (form->trim)
            append_trimmed(out, m[i].content);
        else
            buffer_text(out, m[i].content);
        if (!form->close) buffer_text(out, words->eos);
        buffer_text(out, form->close ? form->close : "\n");
    }
    buffer_text(out, form->answer);
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

static const Tagged plain = {.roles = {"system: ", "user: ", "assistant: "}, .close = "\n", .answer = "assistant:"};

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
    buffer_text(out, "<start_of_turn>model\n");
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
    {.name = "chatml",
     .marks = {"<|im_start|>", "<|im_end|>"},
     .without = {"<think>", "bos_token", "You are ", "trim"},
     .ends = {"<|im_end|>"},
     .longest = 600,
     .render = render_tagged,
     .form = CHATML(NULL)},
    {.name = "llama-3",
     .marks = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "trim"},
     .without = {"Today Date", "python_tag", "<think>"},
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
    {.name = "plain", .render = render_tagged, .form = &plain},
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
    for (size_t i = 0; i < COUNTOF(templates); i++)
        if (is_one(&templates[i], jinja)) return &templates[i];
    return NULL;
}

void chat_template_names(Buffer *out) {
    for (size_t i = 0; i < COUNTOF(templates); i++) buffer_print(out, "%s%s", i ? ", " : "", templates[i].name);
}
