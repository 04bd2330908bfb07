/* noised --batch: the bytes of HTTP, each request once, whatever stands in the file. */
#include "tests/server/test_batch.h"

#include "base/memory.h"
#include "server/api/schema/schema.h"

#include <stdlib.h>
#include <string.h>

/* ---- a batch in a folder of its own ---- */

BatchPlace batch_place(TestCheckpoint kind) {
    BatchPlace p = {.dir = test_dir(), .kind = kind};
    snprintf(p.in, sizeof p.in, "%s/in.jsonl", p.dir);
    snprintf(p.out, sizeof p.out, "%s/out.jsonl", p.dir);
    const char *model = test_checkpoint(kind);
    snprintf(p.model, sizeof p.model, "%s", model ? model : "");
    return p;
}

void batch_put(Buffer *b, const char *id, const char *url, const char *body) {
    buffer_print(b, "{\"custom_id\":\"%s\",\"method\":\"POST\",\"url\":\"%s\",\"body\":%s}\n", id, url, body);
}

void batch_write(const BatchPlace *p, Buffer *b) {
    test_write_file(p->in, b->data, b->n);
    buffer_free(b);
}

int batch_to_its_end(const BatchPlace *p, const char *options, char **said) {
    return daemon_run(test_text("--model %s --threads 1 --batch %s --out %s %s", p->model, p->in, p->out, options),
                      said);
}

BatchResults batch_results(const BatchPlace *p) {
    BatchResults r = {.text = test_read_file(p->out, NULL)};
    if (!r.text) r.text = xstrdup("");
    for (char *at = r.text, *end; (end = strchr(at, '\n')); at = end + 1) {
        cJSON *line = cJSON_ParseWithLength(at, (size_t)(end - at));
        CHECK_MSG(line, "%.*s", (int)(end - at), at);
        if (r.n < (int)COUNTOF(r.lines)) r.lines[r.n++] = line;
    }
    return r;
}

void batch_results_free(BatchResults *r) {
    for (int i = 0; i < r->n; i++) cJSON_Delete(r->lines[i]);
    free(r->text);
}

const cJSON *batch_result(const BatchResults *r, const char *custom_id) {
    const cJSON *found = NULL;
    for (int i = 0; i < r->n; i++) {
        const char *id = json_text(r->lines[i], "custom_id");
        if (!id || strcmp(id, custom_id) != 0) continue;
        CHECK_MSG(!found, "%s has two results", custom_id);
        found = r->lines[i];
    }
    return found;
}

/* ---- the bytes of HTTP ---- */

/* What differs by nature: ids of 24 digits, the time, llama-server's timings, what the cache had. */
static void mask(char *text) {
    static const char *const numbers[] = {
        "\"created\":", "\"created_at\":", "\"completed_at\":", "_ms\":", "_per_second\":", "\"cached_tokens\":",
        "\"cache_n\":", "\"prompt_n\":",   "\"tokens_cached\":"};
    for (size_t i = 0; i < COUNTOF(numbers); i++)
        for (char *at = text; (at = strstr(at, numbers[i]));) {
            at += strlen(numbers[i]);
            size_t n = strspn(at, "-+.e0123456789");
            memmove(at, at + n, strlen(at + n) + 1);
        }
    for (char *at = text; *at; at++) {
        bool drawn = *at == '-' && strspn(at + 1, "0123456789abcdef") == 24;
        for (int i = 1; drawn && i <= 24; i++) at[i] = 'x';
    }
}

/* The bytes of the result's body in the file. */
static char *body_of(const BatchResults *r, const char *id) {
    const char *line = strstr(r->text, test_text("\"custom_id\":\"%s\",\"response\":{", id)),
               *body = line ? strstr(line, "\"body\":") : NULL;
    const char *end = line ? strstr(line, "},\"error\":null}\n") : NULL;
    return body && end ? strndup(body + 7, (size_t)(end - body) - 7) : xstrdup("none");
}

typedef struct Asked {
    const char *url, *body;
} Asked;

static void check_same(TestCheckpoint kind, const char *options, const Asked *asked, int n) {
    BatchPlace p = batch_place(kind);
    Buffer lines = {0};
    for (int i = 0; i < n; i++)
        batch_put(&lines, (char[]){'a', (char)('0' + i / 10), (char)('0' + i % 10), 0}, asked[i].url, asked[i].body);
    batch_write(&p, &lines);
    char *said;
    int status = batch_to_its_end(&p, options, &said);
    CHECK_MSG(status == 0 || status == 3, "%d: %s", status, said);
    BatchResults r = batch_results(&p);
    CHECK_MSG(r.n == n, "%d results of %d", r.n, n);
    Daemon d;
    REQUIRE(daemon_start(&d, kind, options));
    for (int i = 0; i < n; i++) {
        char id[] = {'a', (char)('0' + i / 10), (char)('0' + i % 10), 0};
        const cJSON *result = batch_result(&r, id);
        Answer a = http_post(&d, asked[i].url, asked[i].body);
        char *body = body_of(&r, id);
        CHECK_MSG(a.status == json_number(result, "response.status_code"), "%s: %s", asked[i].body, body);
        mask(body);
        mask(a.body);
        CHECK_MSG(!strcmp(body, a.body), "%s %s:\n%s\nover HTTP\n%s", asked[i].url, asked[i].body, body, a.body);
        free(body);
    }
    daemon_stop(&d);
    batch_results_free(&r);
    free(said);
}

#define RIVER "\"prompt\":\"The river\",\"seed\":3,\"max_tokens\":12"
static const Asked of_all_routes[] = {
    {"/v1/completions", "{" RIVER "}"},
    {"/completions", "{" RIVER ",\"n\":3,\"logprobs\":2,\"temperature\":1.5}"},
    {"/v1/completions", "{" RIVER ",\"noise_seed\":9007199254740991}"},
    {"/v1/completions", "{\"prompt\":\"a\",\"seed\":-9223372036854775807,\"max_tokens\":3}"},
    {"/v1/completions", "{\"prompt\":[\"a\",\"b\"],\"json_schema\":{\"enum\":[1,\"\\u00fc\\\"}]\"]},\"seed\":1}"},
    {"/v1/completions", "{" RIVER ",\"bogus\":true}"},
    {"/v1/completions", "{\"prompt\":\"The river\",\"max_tokens\":1000000}"},
    {"/v1/completions", "{" RIVER ",\"metadata\":[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}"},
    {"/v1/completions", "{" RIVER ",\"model\":\"other\"}"},
    {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"seed\":1,\"max_tokens\":9}"},
    {"/v1/responses", "{\"input\":\"Hi\",\"seed\":1,\"max_output_tokens\":9}"},
    {"/completion", "{\"prompt\":\"The river\",\"seed\":3,\"n_predict\":9}"},
    {"/infill", "{\"input_prefix\":\"The\",\"input_suffix\":\"mill\"}"},
    {"/v1/embeddings", "{\"input\":[\"The river\",\"the mill\"]}"},
    {"/v1/rerank", "{\"query\":\"The river\",\"documents\":[\"a mill\",\"a river\"]}"},
    {"/v1/classify", "{\"input\":\"The river\"}"},
    {"/v1/tag", "{\"input\":\"The river\"}"},
    {"/v1/fill-mask", "{\"input\":\"The river\"}"},
    {"/v1/score", "{\"prompt\":\"The\",\"continuations\":[\" river\",\" mill\"],\"noise_seed\":1}"},
    {"/v1/replay", "{\"request\":{" RIVER "},\"response\":{\"choices\":[{\"index\":0,\"text\":\"x\",\"seed\":3,"
                   "\"noise_seed\":3,\"finish_reason\":\"stop\"}]}}"},
    {"/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"},
    {"/tokenize", "{\"prompt\":\"The river\"}"},
    {"/detokenize", "{\"tokens\":[5,6,7]}"},
};

TEST(batch_answers_with_the_bytes_of_http) {
    check_same(CHECKPOINT_SMALL, "--chat-template plain", of_all_routes, COUNTOF(of_all_routes));
    for (const Route *r = routes; r->path; r++) {
        bool asked = !r->body;
        for (size_t i = 0; i < COUNTOF(of_all_routes); i++) asked |= !strcmp(of_all_routes[i].url, r->path);
        CHECK_MSG(asked, "%s", r->path);
    }
}

TEST(batch_answers_tasks) {
    static const Asked classes[] = {{"/v1/classify", "{\"input\":[\"The river\",\"The mill\"],\"noise_seed\":1}"},
                                    {"/v1/completions", "{" RIVER "}"}};
    static const Asked images[] = {{"/v1/classify", "{\"input\":{\"image\":\"data:image/png;base64,AAAA\"}}"}};
    check_same(CHECKPOINT_CLASSES, "", classes, COUNTOF(classes));
    check_same(CHECKPOINT_IMAGES, "", images, COUNTOF(images));
}

/* Bodies that workers read, the largest of these, and those that are too large for anybody. */
TEST(batch_answers_large_bodies) {
    static char large[9000], largest[16384 + 1], larger[20000];
    snprintf(large, sizeof large, "{\"prompt\":\"%8000s\"}", "river");
    snprintf(largest, sizeof largest, "{\"prompt\":\"%*s\"}", 16384 - 13, "river");
    snprintf(larger, sizeof larger, "{\"prompt\":\"%18000s\"}", "river");
    const Asked asked[] = {
        {"/tokenize", large}, {"/tokenize", largest}, {"/tokenize", larger}, {"/v1/completions", large}};
    check_same(CHECKPOINT_SMALL, "--max-body 16384", asked, COUNTOF(asked));
}

/* ---- lines that are none ---- */

TEST(batch_names_bad_lines_and_does_the_rest) {
    static const struct {
        const char *line, *custom_id, *code, *param, *says;
    } cases[] = {
        {"{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/tokenize\",\"body\":{\"prompt\":\"x\"}}", "a", NULL, NULL,
         NULL},
        {"not JSON", NULL, "invalid_json", NULL, "line 2: not valid JSON"},
        {"[1]", NULL, "invalid_line", NULL, "line 3: it must be a JSON object"},
        {"  ", NULL, NULL, NULL, NULL},
        {"{\"method\":\"POST\"}", NULL, "invalid_line", "custom_id", "not missing"},
        {"{\"custom_id\":7}", NULL, "invalid_line", "custom_id", "not 7"},
        {"{\"custom_id\":\"\"}", NULL, "invalid_line", "custom_id", "1 to 512 bytes"},
        {"{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/tokenize\",\"body\":{\"prompt\":\"x\"}}", "a",
         "invalid_line", "custom_id", "that of line 1 too"},
        {"{\"custom_id\":\"i\",\"url\":\"/tokenize\",\"body\":{}}", "i", "invalid_line", "method", "\"POST\""},
        {"{\"custom_id\":\"j\",\"method\":\"GET\",\"url\":\"/tokenize\",\"body\":{}}", "j", "invalid_line", "method",
         "\"POST\""},
        {"{\"custom_id\":\"k\",\"method\":\"POST\",\"url\":\"/tokenise\",\"body\":{}}", "k", "unknown_route", "url",
         "the nearest is /tokenize"},
        {"{\"custom_id\":\"l\",\"method\":\"POST\",\"url\":\"/health\",\"body\":{}}", "l", "invalid_line", "url",
         "no POST"},
        {"{\"custom_id\":\"m\",\"method\":\"POST\",\"url\":5,\"body\":{}}", "m", "invalid_line", "url",
         "a string, not 5"},
        {"{\"custom_id\":\"n\",\"method\":\"POST\",\"url\":\"/tokenize\"}", "n", "invalid_line", "body", "missing"},
        {"{\"custom_id\":\"o\",\"method\":\"POST\",\"url\":\"/tokenize\",\"body\":[]}", "o", "invalid_line", "body",
         "an object"},
        {"{\"custom_id\":\"p\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"stream\":true}}", "p",
         "invalid_line", "body.stream", "no streams"},
        {"{\"custom_id\":\"q\",\"method\":\"POST\",\"url\":\"/tokenize\",\"body\":{},\"priority\":1}", "q",
         "invalid_line", "priority", "unknown field"},
        {"{\"custom_id\":\"r\",\"method\":\"POST\",\"url\":\"/tokenize\",\"body\":{\"a\":1,\"a\":2}}", NULL,
         "invalid_json", NULL, "twice"},
        {"{ \"body\" : {\"prompt\":\"}\\\"{,\"} , \"custom_id\":\"s\",\r\"url\":\"/tokenize\",\"method\":\"POST\" }\r",
         "s", NULL, NULL, NULL},
    };
    BatchPlace p = batch_place(CHECKPOINT_SMALL);
    Buffer b = {0};
    for (size_t i = 0; i < COUNTOF(cases); i++)
        buffer_print(&b, "%s%s", cases[i].line, i + 1 < COUNTOF(cases) ? "\n" : "");
    batch_write(&p, &b);
    for (int again = 0; again < 2; again++) {
        char *said;
        CHECK(batch_to_its_end(&p, "", &said) == 3);
        CHECK_MSG(!strstr(said, "are of no line"), "%s", said);
        free(said);
        BatchResults r = batch_results(&p);
        CHECK_MSG(r.n == (int)COUNTOF(cases) - 1, "%s", r.text);
        for (size_t i = 0; i < COUNTOF(cases); i++) {
            const char *id = test_text("batch_req_%zu", i + 1);
            const cJSON *line = NULL;
            for (int k = 0; k < r.n; k++)
                if (!strcmp(json_text(r.lines[k], "id"), id)) line = r.lines[k];
            CHECK_MSG(!line == !strcmp(cases[i].line, "  "), "%s", cases[i].line);
            if (!line) continue;
            const char *custom_id = json_text(line, "custom_id"), *message = json_text(line, "error.message");
            const char *code = json_text(line, "error.code"), *param = json_text(line, "error.param");
            CHECK_MSG(!strcmp(custom_id ? custom_id : "", cases[i].custom_id ? cases[i].custom_id : ""), "%s",
                      cases[i].line);
            CHECK_MSG(!strcmp(code ? code : "", cases[i].code ? cases[i].code : ""), "%s: %s", cases[i].line, code);
            CHECK_MSG(!strcmp(param ? param : "", cases[i].param ? cases[i].param : ""), "%s: %s", cases[i].line,
                      param);
            CHECK_MSG(!cases[i].says || (message && strstr(message, cases[i].says)), "%s: %s", cases[i].line, message);
            CHECK(cases[i].code ? json_number(line, "error.line") == (double)(i + 1)
                                : json_number(line, "response.status_code") == 200);
        }
        batch_results_free(&r);
    }
}

/* A line of any length takes no more memory than one that may be asked. */
/* A loss of power may leave such: they are no blank lines. */
TEST(batch_names_a_line_of_zeros) {
    BatchPlace p = batch_place(CHECKPOINT_SMALL);
    Buffer b = {0};
    buffer_append(&b, "\0\0\n", 3);
    batch_write(&p, &b);
    CHECK(batch_to_its_end(&p, "", NULL) == 3);
    BatchResults r = batch_results(&p);
    CHECK_MSG(r.n == 1 && strstr(r.text, "\"code\":\"invalid_json\""), "%s", r.text);
    batch_results_free(&r);
}

TEST(batch_passes_over_endless_lines) {
    enum { ENDLESS = 40 << 20 };
    BatchPlace p = batch_place(CHECKPOINT_SMALL);
    Buffer b = {0};
    char *xs = xmalloc(ENDLESS);
    memset(xs, 'x', ENDLESS);
    buffer_append(&b, xs, ENDLESS);
    buffer_text(&b, "\n");
    batch_put(&b, "a", "/tokenize", "{\"prompt\":\"x\"}");
    batch_write(&p, &b);
    CHECK(batch_to_its_end(&p, "", NULL) == 3);
    BatchResults r = batch_results(&p);
    CHECK_MSG(r.n == 2 && strstr(r.text, "line 1: its 41943040 bytes are more than --max-body"), "%s", r.text);
    CHECK(json_number(batch_result(&r, "a"), "response.status_code") == 200);
    batch_results_free(&r);
    free(xs);
}

/* ---- limits ---- */

TEST(batch_remembers_thousands_of_ids) {
    enum { LINES = 3000 };
    BatchPlace p = batch_place(CHECKPOINT_SMALL);
    Buffer b = {0};
    for (int i = 0; i <= LINES; i++) {
        batch_put(&b, test_text("%d", i % LINES), "/tokenize", "{\"prompt\":\"x\"}");
    }
    batch_write(&p, &b);
    for (int again = 0; again < 2; again++) {
        CHECK(batch_to_its_end(&p, "", NULL) == 3);
        BatchResults r = batch_results(&p);
        CHECK(r.n == LINES + 1);
        CHECK(r.n > 0 && json_number(r.lines[r.n - 1], "error.line") == LINES + 1);
        CHECK(strstr(r.text, "custom_id \\\"0\\\" is that of line 1 too"));
        batch_results_free(&r);
    }
}

TEST(batch_tells_what_was_left_aside) {
    BatchPlace p = batch_place(CHECKPOINT_SMALL);
    Buffer b = {0};
    batch_put(&b, "a", "/tokenize", "{\"prompt\":\"x\",\"bogus\":1,\"more\":2}");
    batch_write(&p, &b);
    CHECK(batch_to_its_end(&p, "--lenient", NULL) == 0);
    BatchResults r = batch_results(&p);
    CHECK_MSG(strstr(r.text, "\"headers\":{\"x-noised-ignored\":\"bogus, more\"}"), "%s", r.text);
    batch_results_free(&r);
}
