#include "server/api/previous.h"

#include "base/json_write.h"
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static int fail(ApiError *e, int index, const char *key, const char *what, const cJSON *item) {
    char name[64];
    snprintf(name, sizeof name, "response.choices[%d].%s", index, key);
    return api_fail(e, 400, NULL, name, "%s must be %s, not %s", name, what, show_json(item).text);
}

/* null and absence leave *out. */
static int read_seed(const cJSON *item, int index, const char *key, uint64_t *out, ApiError *e) {
    int64_t seed;
    if (json_is_null(item)) return 0;
    if (!json_integer(item, 0, SEED_MAX, &seed))
        return fail(e, index, key, "an integer between 0 and 9007199254740991", item);
    *out = (uint64_t)seed;
    return 0;
}

/* Calls as they stood in the text; a stream's come in parts, of which the first has the name. */
static int read_calls(PreviousChoice *c, const cJSON *calls, const CallStyle *style, int index, ApiError *e) {
    const cJSON *call;
    if (json_is_null(calls)) return 0;
    if (!style) return fail(e, index, "message.tool_calls", "absent, as the request can call nothing", calls);
    cJSON_ArrayForEach(call, calls) {
        const cJSON *function = json_field(call, "function");
        const char *name = cJSON_GetStringValue(json_field(function, "name"));
        const char *arguments = cJSON_GetStringValue(json_field(function, "arguments"));
        if (!arguments || (!name && c->n_calls == 0))
            return fail(e, index, "message.tool_calls", "calls of a function's name and arguments", calls);
        if (name && c->n_calls++ > 0) {
            buffer_text(&c->text, style->close);
            buffer_text(&c->text, style->between ? style->between : "");
        }
        if (name) buffer_print(&c->text, "%s%s%s", style->mark, style->open, name);
        c->named = c->named || name;
        if (!*arguments) continue; /* a stream's come later; of a call that was cut here nobody told how much follows */
        buffer_text(&c->text, c->named ? style->middle : "");
        buffer_text(&c->text, arguments);
        c->named = false;
    }
    return c->text.failed ? api_no_memory(e) : 0;
}

static int read_text(PreviousAnswer *f, PreviousChoice *c, const cJSON *choice, int index, ApiError *e) {
    const cJSON *message = json_field(choice, "message"), *inner = message ? message : json_field(choice, "delta");
    const cJSON *text = inner ? json_field(inner, "content") : json_field(choice, "text");
    const char *key = inner ? "message.content" : "text";
    bool none = inner && (json_is_null(text) || (!text && !message)); /* who speaks, or that the choice ends */
    if (!none && !cJSON_IsString(text)) return fail(e, index, key, "a string", text);
    if (!none) buffer_text(&c->text, text->valuestring);
    return c->text.failed ? api_no_memory(e) : read_calls(c, json_field(inner, "tool_calls"), f->style, index, e);
}

static int read_choice(PreviousAnswer *f, const cJSON *choice, ApiError *e) {
    const cJSON *at = json_field(choice, "index"), *finish = json_field(choice, "finish_reason");
    int64_t index;
    if (!json_integer(at, 0, f->n - 1, &index))
        return api_fail(e, 400, NULL, "response",
                        "a choice of the response has the index %s, the request's are 0 to %d", show_json(at).text,
                        f->n - 1);
    PreviousChoice *c = &f->choices[index];
    const cJSON *seed = json_field(choice, "seed");
    c->seen = true;
    if (!c->has_seed && read_seed(seed, (int)index, "seed", &c->seed, e)) return -1;
    if (!c->has_seed) c->noise_seed = c->seed;
    c->has_seed = c->has_seed || cJSON_IsNumber(seed);
    if (read_seed(json_field(choice, "noise_seed"), (int)index, "noise_seed", &c->noise_seed, e)) return -1;
    if (cJSON_IsTrue(json_field(choice, "deadline"))) c->partial = true;
    if (!json_is_null(finish)) {
        static const char *const reasons[] = {"stop", "length", "tool_calls", NULL};
        if (!cJSON_IsString(finish) || !text_is_in(finish->valuestring, reasons))
            return fail(e, (int)index, "finish_reason", "\"stop\", \"length\" or \"tool_calls\"", finish);
        snprintf(c->finish, sizeof c->finish, "%s", finish->valuestring);
    }
    return read_text(f, c, choice, (int)index, e);
}

static int read_object(PreviousAnswer *f, const cJSON *object, ApiError *e) {
    const cJSON *choices = json_field(object, "choices"), *choice;
    const char *fingerprint = cJSON_GetStringValue(json_field(object, "system_fingerprint"));
    if (!cJSON_IsArray(choices))
        return api_fail(e, 400, NULL, "response",
                        "response must be an answer, or an array of the events of one, with "
                        "choices");
    if (fingerprint) snprintf(f->fingerprint, sizeof f->fingerprint, "%s", fingerprint);
    cJSON_ArrayForEach(choice, choices) if (read_choice(f, choice, e)) return -1;
    return 0;
}

static int check_whole(PreviousAnswer *f, ApiError *e) {
    static const char replaced[] = UTF8_REPLACEMENT;
    const size_t length = sizeof replaced - 1;
    for (int i = 0; i < f->n; i++) {
        PreviousChoice *c = &f->choices[i];
        if (!c->seen)
            return api_fail(e, 400, NULL, "response", "response has no choice %d, the request has %d choices", i, f->n);
        if (!c->has_seed)
            return api_fail(e, 400, NULL, "response", "choice %d of the response has no seed: nothing repeats it", i);
        bool called = c->n_calls > 0 && !strcmp(c->finish, "tool_calls");
        if (called) buffer_text(&c->text, f->style->close);
        if (c->text.failed) return api_no_memory(e);
        if (!*c->finish || (c->n_calls > 0 && !called)) c->partial = true;
        /* The deadline came in the middle of a character. */
        bool cut = c->partial && c->text.n >= length && !memcmp(c->text.data + c->text.n - length, replaced, length);
        if (cut) c->text.n -= length;
    }
    return 0;
}

PreviousAnswer *previous_read(const cJSON *response, int n, const CallStyle *style, ApiError *e) {
    PreviousAnswer *f = try_calloc(1, sizeof *f);
    if (f) f->choices = try_calloc((size_t)n, sizeof *f->choices);
    int rc = f && f->choices ? 0 : api_no_memory(e);
    if (rc == 0) {
        f->n = n;
        f->style = style;
        const cJSON *object = cJSON_IsArray(response) ? response->child : response;
        do {
            rc = read_object(f, object, e);
        } while (rc == 0 && cJSON_IsArray(response) && (object = object->next));
    }
    if (rc == 0) rc = check_whole(f, e);
    if (rc == 0) return f;
    previous_free(f);
    return NULL;
}

void previous_free(PreviousAnswer *f) {
    for (int i = 0; f && i < f->n; i++) buffer_free(&f->choices[i].text);
    if (f) free(f->choices);
    free(f);
}

/* ---- comparing ---- */

int64_t previous_difference(const PreviousChoice *c, const char *text, size_t n) {
    size_t same = 0, most = MIN(n, c->text.n);
    while (same < most && text[same] == c->text.data[same]) same++;
    if (same == c->text.n && (c->partial || same == n)) return -1;
    return (int64_t)same;
}

static bool continues(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

void previous_put_around(Buffer *b, const char *key, const char *text, size_t n, size_t at) {
    enum { BEFORE = 16, BEHIND = 24 };
    size_t from = at > BEFORE ? at - BEFORE : 0, to = MIN(n, at + BEHIND);
    while (from > 0 && continues(text[from])) from--;
    while (to < n && continues(text[to])) to++;
    json_put_bytes(b, key, n ? text + from : "", to - from);
}

/* The next part of a fingerprint, up to a hyphen; that of OpenBLAS, "blas-<core>-<version>", has two inside, and the
 * last one has the rest. */
static size_t next_part(const char **rest, bool last) {
    int inside = strncmp(*rest, "blas-", 5) ? 0 : 2;
    size_t n = last ? strlen(*rest) : strcspn(*rest, "-");
    for (; inside && (*rest)[n]; inside--) n += 1 + strcspn(*rest + n + 1, "-");
    *rest += n + ((*rest)[n] == '-');
    return n;
}

void previous_put_parts(Buffer *b, const char *key, const char *previous, const char *now) {
    static const char *const names[] = {"checkpoint", "version", "arithmetic", "template"};
    json_open(b, key, '[');
    for (size_t i = 0; i < COUNTOF(names); i++) {
        const char *was = previous, *is = now;
        size_t n_was = next_part(&previous, i + 1 == COUNTOF(names)), n_is = next_part(&now, i + 1 == COUNTOF(names));
        if (n_was == n_is && !memcmp(was, is, n_is)) continue;
        json_put_text(b, NULL, names[i]);
    }
    json_close(b, ']');
}
