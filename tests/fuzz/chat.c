/* How conversations are written. The first byte says what the rest is:
 *     even    a template's number, the words, and messages, each behind its role and up to a 0xFF
 *     odd     a folder's chat_template.jinja 0xFF tokenizer_config.json 0xFF generation_config.json
 * What a template accepts is valid text that holds what the users said; what it refuses names a message. */
#include "base/memory.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"
#include "weights/chat.h"
#include "weights/generation.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };

static const ChatTemplate *template_number(int i) {
    static const char *const names[] = {"chatml",    "qwen2.5", "qwen3",        "smollm2", "llama-2", "llama-3",
                                        "llama-3.1", "mistral", "mistral-nemo", "zephyr",  "phi-3",   "phi-3.5",
                                        "gemma",     "gemma-3", "alpaca",       "plain"};
    const ChatTemplate *t = chat_template_named(names[(size_t)i % COUNTOF(names)]);
    BUG_ON(!t);
    return t;
}

/* Some templates take blanks away at both ends, and what a blank is they do not agree about. */
static bool holds(const Buffer *out, const char *content) {
    size_t n = strlen(content), from = 0;
    while (from < n && (content[from] <= ' ' || content[from] == 0x7f)) from++; /* bytes beyond ASCII are negative */
    while (n > from && (content[n - 1] <= ' ' || content[n - 1] == 0x7f)) n--;
    return n == from || (out->n && memmem(out->data, out->n, content + from, n - from));
}

static void check_render(FuzzInput *in) {
    const ChatTemplate *t = template_number(fuzz_byte(in));
    int words = fuzz_byte(in), n = 0;
    ChatMessage m[MOST];
    Buffer out = {0};
    ChatFault fault = {.message = -1};
    size_t length;
    while (n == 0 || (n < MOST && in->left)) {
        m[n].role = (ChatRole)fuzz_below(in, 3);
        char *text = fuzz_until(in, 0xFF, &length);
        text[utf8_valid_prefix(text, strlen(text))] = 0; /* JSON brought it */
        m[n++].content = text;
    }
    const ChatWords given = {.bos = words & 1 ? "<s>" : "",
                             .eos = words & 2 ? "</s>" : "",
                             .date = words & 4 ? "26 Jul 2024" : NULL,
                             .think = words & 8};
    int rc = t->render(t, m, n, &given, &out, &fault);
    CHECK(!out.failed && (rc == 0 || (fault.message >= 0 && fault.message < n && fault.why)));
    CHECK_MSG(out.n == 0 || utf8_is_valid(out.data, out.n), "%s writes what is no UTF-8", t->name);
    for (int i = 0; rc == 0 && i < n; i++)
        CHECK_MSG(m[i].role != CHAT_USER || holds(&out, m[i].content), "%s leaves out \"%s\":\n%.*s", t->name,
                  m[i].content, (int)out.n, out.data);
    for (int i = 0; i < n; i++) free((char *)m[i].content);
    buffer_free(&out);
}

static void check_folder(FuzzInput *in) {
    static const char *const names[] = {"chat_template.jinja", "tokenizer_config.json", GENERATION_FILE};
    for (size_t i = 0; i < COUNTOF(names); i++) {
        size_t n;
        char *text = fuzz_until(in, 0xFF, &n);
        if (n)
            fuzz_file(names[i], text, n);
        else
            fuzz_remove(names[i]);
        free(text);
    }
    Chat chat = {0};
    chat_of_folder(&chat, fuzz_folder());
    CHECK(chat.form ? chat.source && strlen(chat.source) <= chat.form->longest : chat.why[0]);
    chat_close(&chat);
    Generation g;
    Config c = {.vocab_size = 100, .causal = true, .max_positions = 16, .eos_token_id = 1};
    Sha256 hash;
    Err err = {""};
    char hex[65];
    sha256_init(&hash);
    int rc = generation_open(&g, &c, &hash, fuzz_folder(), &err);
    sha256_hex(&hash, hex);
    if (rc) {
        CHECK(err.msg[0]);
        return;
    }
    for (int i = 0; i < GENERATION_VALUES; i++) {
        const GenerationKey *k = &generation_keys[i];
        CHECK_MSG(g.values[i] == k->fallback || (g.values[i] >= k->low && g.values[i] <= k->high), "%s is %g", k->name,
                  g.values[i]);
    }
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    if (fuzz_byte(&in) & 1)
        check_folder(&in);
    else
        check_render(&in);
}

TEST(fuzz_chat) { fuzz_run("chat", look); }
