/* What the largest request of each kind costs, in the daemon's own processor time: on a busy machine the clock says
 * nothing. A bound is four times what was measured so that it tells growth with the square from a slow machine; and
 * four times the request may cost at most eight times as much. Neighbours of a virtual machine make processor time
 * dear, for seconds (17 times was seen), so what is beyond a bound is measured again, and the least counts. */
#include "base/buffer.h"
#include "base/memory.h"
#include "tests/support/http_client.h"
#include "tests/support/talk.h"
#include "tokenizer/chat_templates.h"

#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- bodies of n units ---- */

static void repeat(Buffer *b, const char *what, int n) {
    for (int i = 0; i < n; i++) buffer_text(b, what);
}

static void list(Buffer *b, const char *fmt, int n) {
    for (int i = 0; i < n; i++) {
        if (i) buffer_text(b, ",");
        buffer_print(b, fmt, i); /* NOLINT: the tables' own */
    }
}

#define BODY(id, fill, head, unit, tail)                                                                               \
    static void id(Buffer *b, int n) {                                                                                 \
        buffer_text(b, head);                                                                                          \
        fill(b, unit, n);                                                                                              \
        buffer_text(b, tail);                                                                                          \
    }
#define TEXT(id, head, unit, tail) BODY(id, repeat, head, unit, tail)
#define LIST(id, head, unit, tail) BODY(id, list, head, unit, tail)
TEXT(letters, "{\"prompt\":\"", "a", "\"}")
TEXT(spaces, "{\"prompt\":\"", " ", "\"}")
TEXT(digits, "{\"prompt\":\"", "7", "\"}")
TEXT(newlines, "{\"prompt\":\"", "\\n", "\"}")
TEXT(words, "{\"prompt\":\"", "the river runs, ", "\"}")
TEXT(emoji, "{\"prompt\":\"", "\xF0\x9F\x98\x80", "\"}")
TEXT(combining, "{\"prompt\":\"e", "\xCC\x81", "\"}")
TEXT(special, "{\"prompt\":\"", "<|endoftext|>", "\"}")
TEXT(nearly_special, "{\"prompt\":\"", "<|endoftext|", "\"}")
TEXT(escapes, "{\"prompt\":\"", "\\u0041", "\"}")
TEXT(blank, "", " ", "{}")
TEXT(numbers, "{\"prompt\":[0", ",1", "]}")
TEXT(nested_lists, "{\"prompt\":[[1]", ",[1]", "]}")
TEXT(tokens, "{\"tokens\":[0", ",1", "]}")
TEXT(inputs, "{\"input\":[\"a\"", ",\"b\"", "]}")
TEXT(continuations, "{\"prompt\":\"a\",\"continuations\":[\"b\"", ",\"c\"", "]}")
TEXT(messages, "{\"max_tokens\":1,\"messages\":[{\"role\":\"system\",\"content\":\"s\"}",
     ",{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"a\"}", "]}")
TEXT(parts, "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}",
     ",{\"type\":\"text\",\"text\":\"b\"}", "]}]}")
TEXT(regex, "{\"max_tokens\":1,\"regex\":\"a", "|ab*c", "\"}")
TEXT(regex_counted, "{\"max_tokens\":1,\"regex\":\"", "(a|b){1,4}", "\"}")
TEXT(schema, "{\"max_tokens\":1,\"json_schema\":{\"enum\":[\"a\"", ",\"abc\"", "]}}")
TEXT(grammar, "{\"max_tokens\":1,\"grammar\":\"root ::= [a]", " | [b] [c]", "\"}")

LIST(fields, "{", "\"field%d\":1", "}")
LIST(biases, "{\"max_tokens\":1,\"logit_bias\":{", "\"%d\":1", "}}")
LIST(biased_texts, "{\"max_tokens\":1,\"logit_bias\":[", "[\"the river %d\",1]", "]}")
LIST(choices, "{\"choice\":[",
     "\"the river runs below the mill and the miller counts the stones, the river runs below the mill and the miller "
     "counts the stones %d\"",
     "]}")
LIST(stops, "{\"max_tokens\":400,\"ignore_eos\":true,\"seed\":1,\"noise_seed\":1,\"stop\":[",
     "\"e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e e %d\"",
     "]}")

#define REF "{\"$ref\":\"#/$defs/a\"}"
LIST(references, "{\"json_schema\":{\"oneOf\":[" REF "," REF "],\"$defs\":{\"a\":{", "\"x-%d\":1",
     ",\"type\":\"object\",\"properties\":{\"a\":" REF ",\"b\":" REF ",\"c\":" REF ",\"d\":" REF ",\"e\":" REF
     ",\"f\":" REF "},\"required\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\"]}}}}")
LIST(constants, "{\"json_schema\":{\"oneOf\":[{\"const\":{", "\"m%d\":1", "}},{\"$ref\":\"#/oneOf/0\"}]}}")

typedef struct Bound {
    const char *what, *path;
    void (*body)(Buffer *b, int n);
    int n, status;
    double microseconds; /* a byte, of the body of n units */
} Bound;

#define C "/v1/completions"
static const Bound bounds[] = {
    {"letters", "/tokenize", letters, 250000, 200, 1},
    {"spaces", "/tokenize", spaces, 250000, 200, 1},
    {"digits", "/tokenize", digits, 250000, 200, 1},
    {"newlines", "/tokenize", newlines, 125000, 200, 1},
    {"words", "/tokenize", words, 15000, 200, 1},
    {"emoji", "/tokenize", emoji, 60000, 200, 1},
    {"combining marks", "/tokenize", combining, 120000, 200, 1},
    {"special tokens", "/tokenize", special, 19000, 200, 1},
    {"beginnings of special tokens", "/tokenize", nearly_special, 20000, 200, 1},
    {"escapes", "/tokenize", escapes, 40000, 200, 1},
    {"tokens", "/detokenize", tokens, 8000, 200, 1},
    {"white space", C, blank, 250000, 200, 1},
    {"fields", C, fields, 8000, 400, 1},
    {"a prompt of ids", C, numbers, 8000, 400, 1},
    {"prompts of an id", C, nested_lists, 4000, 400, 1},
    {"a prompt beyond the context", C, letters, 250000, 400, 1},
    {"logit_bias by ids", C, biases, 300, 200, 1},
    {"logit_bias by texts", C, biased_texts, 40, 200, 2},
    {"choice", C, choices, 256, 200, 1},
    {"stop", C, stops, 16, 200, 32},
    {"regex of alternatives", C, regex, 200, 200, 2},
    {"regex of repetitions", C, regex_counted, 100, 200, 1},
    {"json_schema", C, schema, 1000, 200, 1},
    {"oneOf of schemas that refer to each other", C, references, 375, 400, 8},
    {"oneOf of objects", C, constants, 8000, 400, 1},
    {"grammar", C, grammar, 100, 200, 2},
    {"messages", "/v1/chat/completions", messages, 500, 400, 1},
    {"parts of a message", "/v1/chat/completions", parts, 2000, 400, 1},
    {"inputs", "/v1/embeddings", inputs, 127, 200, 48},
    {"continuations", "/v1/score", continuations, 127, 200, 24},
};

/* Seconds of the daemon's for one such request, which is sent several times where it is brief. */
static double cost(const Daemon *d, const Bound *bound, int n, size_t *bytes) {
    enum { TIMES = FEWER(20) };
    Buffer body = {0};
    bound->body(&body, n);
    buffer_append(&body, "", 1);
    *bytes = body.n - 1;
    int times = 0;
    double start = daemon_cpu_seconds(d), used = 0;
    for (; times < TIMES && used < 0.005; times++) {
        Answer a = http_post(d, bound->path, body.data);
        CHECK_MSG(a.status == bound->status, "%s, %d: %d %.300s", bound->what, n, a.status, a.body);
        used = daemon_cpu_seconds(d) - start;
    }
    buffer_free(&body);
    return used / times;
}

TEST(bounds_of_processor_time) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    for (size_t i = 0; i < COUNTOF(bounds); i++) {
        const Bound *b = &bounds[i];
        size_t bytes, fewer;
        double whole = INFINITY, quarter = INFINITY, each = INFINITY, most = 0;
        for (int try = 0; try < TRIES && (each > b->microseconds || whole > most); try++) {
            whole = fmin(whole, cost(&d, b, b->n, &bytes));
            quarter = fmin(quarter, cost(&d, b, b->n / 4, &fewer));
            each = SANITIZED ? 0 : 1e6 * whole / (double)bytes;
            most = 8 * quarter + 0.005 * SLOWNESS;
        }
        CHECK_MSG(each <= b->microseconds, "%s: %.3f us a byte, not %.3f", b->what, each, b->microseconds);
        CHECK_MSG(whole <= most, "%s: %.1f ms, a quarter of it %.1f", b->what, 1e3 * whole, 1e3 * quarter);
    }
    daemon_stop(&d);
}

/* ---- chat templates ---- */

/* Seconds of ours for a conversation of n turns. */
static double render_cost(const Chat *chat, int n) {
    enum { TIMES = FEWER(4) };
    cJSON *messages = cJSON_CreateArray();
    for (int i = 0; i < n; i++) {
        cJSON *message = cJSON_CreateObject();
        cJSON_AddStringToObject(message, "role", i % 2 ? "assistant" : "user");
        cJSON_AddStringToObject(message, "content", "the river runs below");
        cJSON_AddItemToArray(messages, message);
    }
    const ChatRequest request = {.messages = messages};
    Buffer out = {0};
    Err err = {""};
    double start = test_cpu_seconds();
    for (int k = 0; k < TIMES; k++) {
        out.n = 0;
        CHECK_MSG(chat_write(chat, &request, &out, &err) == 0, "%s: %s", chat->name, err.msg);
    }
    double each = (test_cpu_seconds() - start) / TIMES;
    buffer_free(&out);
    cJSON_Delete(messages);
    return each;
}

TEST(bounds_of_chat_templates) {
    enum { MESSAGES = 4001 };
    Buffer names = {0};
    /* Large pieces stay with the process: pages that come and go cost more than all else on some virtual machines. */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    chat_template_names(&names);
    buffer_append(&names, "", 1);
    for (char *rest, *name = strtok_r(names.data, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest)) {
        Chat chat;
        REQUIRE(test_chat_open(&chat, name, "<s>", "</s>"));
        double whole = INFINITY, quarter = INFINITY, most = 0;
        for (int try = 0; try < TRIES && whole > most; try++) {
            whole = fmin(whole, render_cost(&chat, MESSAGES));
            quarter = fmin(quarter, render_cost(&chat, MESSAGES / 4 + 1));
            most = 10 * quarter + 0.002 * SLOWNESS;
        }
        CHECK_MSG(whole <= most, "%s: %.2f ms, a quarter of it %.2f", name, 1e3 * whole, 1e3 * quarter);
        chat_close(&chat);
    }
    buffer_free(&names);
    mallopt(M_MMAP_MAX, 65536); /* as they were */
    mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

/* ---- memory ---- */

/* Kilobytes of a line of /proc/PID/status. */
static double status_kb(const Daemon *d, const char *key) {
    char text[4096];
    FILE *f = fopen(test_text("/proc/%d/status", (int)d->pid), "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = 0;
    if (f) fclose(f);
    const char *line = strstr(text, key);
    return line ? atof(line + strlen(key)) : NAN;
}

/* 5 KiB were measured (deploy/RUNBOOK.md). */
TEST(bounds_of_memory_per_connection) {
    enum { CONNECTIONS = 400 };
    static const char get[] = "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n";
    static const double MOST_KB = 4 * 5;
    Daemon d;
    int fds[CONNECTIONS];
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    double before = status_kb(&d, "RssAnon:");
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = raw_connect(&d);
        CHECK(raw_send(fds[i], get, sizeof get - 1) && raw_expect(fds[i], "\"ok\""));
    }
    double each = (status_kb(&d, "RssAnon:") - before) / CONNECTIONS;
    CHECK_MSG(each < MOST_KB * SLOWNESS, "%.1f KB a connection", each);
    for (int i = 0; i < CONNECTIONS; i++) close(fds[i]);
    daemon_stop(&d);
}

/* What a request takes at most while it is read and answered, by the byte of its body, and what stays of it. */
TEST(bounds_of_memory_per_body) {
    static const struct {
        const char *what, *path;
        void (*body)(Buffer *b, int n);
        int n;
        double bytes; /* of memory a byte of the body; what was measured, by 4 */
    } rows[] = {{"white space", C, blank, 250000, 16},
                {"values", C, numbers, 8000, 256},
                {"fields", C, fields, 8000, 64},
                {"letters", "/tokenize", letters, 250000, 64}};
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        Daemon d;
        Buffer body = {0};
        REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
        rows[i].body(&body, rows[i].n);
        buffer_append(&body, "", 1);
        double before = status_kb(&d, "VmRSS:"), most = status_kb(&d, "VmHWM:"), kb = 1e-3 * (double)body.n;
        http_post(&d, rows[i].path, body.data);
        most = fmax(status_kb(&d, "VmHWM:") - fmax(most, before), 0);
        CHECK_MSG(most < (rows[i].bytes * kb + 1000) * SLOWNESS, "%s: %.0f KB for a body of %.0f", rows[i].what, most,
                  kb);
        buffer_free(&body);
        daemon_stop(&d);
    }
}
