/* noised --batch: the bytes of HTTP, each request once, whatever ends the program and whatever stands in the file. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "server/api/schema/schema.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a batch in a folder of its own ---- */

typedef struct Place {
    char *dir;
    char in[300], out[300], model[300];
    TestCheckpoint kind;
} Place;

static Place place_of(TestCheckpoint kind) {
    Place p = {.dir = test_dir(), .kind = kind};
    test_path(p.in, p.dir, "in.jsonl");
    test_path(p.out, p.dir, "out.jsonl");
    const char *model = test_checkpoint(kind);
    snprintf(p.model, sizeof p.model, "%s", model ? model : "");
    return p;
}

static void put_line(Buffer *b, const char *id, const char *url, const char *body) {
    buffer_print(b, "{\"custom_id\":\"%s\",\"method\":\"POST\",\"url\":\"%s\",\"body\":%s}\n", id, url, body);
}

static void write_requests(const Place *p, Buffer *b) {
    test_write_file(p->in, b->data, b->n);
    buffer_free(b);
}

/* Its exit status; what it says goes to *said, which may be NULL. */
static int run_batch(const Place *p, const char *options, char **said) {
    char line[1200];
    snprintf(line, sizeof line, "--model %s --threads 1 --batch %s --out %s %s", p->model, p->in, p->out, options);
    return daemon_run(line, said);
}

typedef struct Results {
    cJSON *lines[4096];
    char *text; /* of the file; "" where there is none */
    int n;
} Results;

static Results results_of(const Place *p) {
    Results r = {.text = test_read_file(p->out, NULL)};
    if (!r.text) r.text = xstrdup("");
    for (char *at = r.text, *end; (end = strchr(at, '\n')); at = end + 1) {
        cJSON *line = cJSON_ParseWithLength(at, (size_t)(end - at));
        CHECK_MSG(line, "%.*s", (int)(end - at), at);
        if (r.n < (int)COUNTOF(r.lines)) r.lines[r.n++] = line;
    }
    return r;
}

static void free_results(Results *r) {
    for (int i = 0; i < r->n; i++) cJSON_Delete(r->lines[i]);
    free(r->text);
}

static const cJSON *result_of(const Results *r, const char *custom_id) {
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
static char *body_of(const Results *r, const char *id) {
    char start[64];
    snprintf(start, sizeof start, "\"custom_id\":\"%s\",\"response\":{", id);
    const char *line = strstr(r->text, start), *body = line ? strstr(line, "\"body\":") : NULL;
    const char *end = line ? strstr(line, "},\"error\":null}\n") : NULL;
    return body && end ? strndup(body + 7, (size_t)(end - body) - 7) : xstrdup("none");
}

typedef struct Asked {
    const char *url, *body;
} Asked;

static void check_same(TestCheckpoint kind, const char *options, const Asked *asked, int n) {
    Place p = place_of(kind);
    Buffer lines = {0};
    for (int i = 0; i < n; i++)
        put_line(&lines, (char[]){'a', (char)('0' + i / 10), (char)('0' + i % 10), 0}, asked[i].url, asked[i].body);
    write_requests(&p, &lines);
    char *said;
    int status = run_batch(&p, options, &said);
    CHECK_MSG(status == 0 || status == 3, "%d: %s", status, said);
    Results r = results_of(&p);
    CHECK_MSG(r.n == n, "%d results of %d", r.n, n);
    Daemon d;
    REQUIRE(daemon_start(&d, kind, options));
    for (int i = 0; i < n; i++) {
        char id[] = {'a', (char)('0' + i / 10), (char)('0' + i % 10), 0};
        const cJSON *result = result_of(&r, id);
        Answer a = http_post(&d, asked[i].url, asked[i].body);
        char *body = body_of(&r, id);
        CHECK_MSG(a.status == json_number(result, "response.status_code"), "%s: %s", asked[i].body, body);
        mask(body);
        mask(a.body);
        CHECK_MSG(!strcmp(body, a.body), "%s %s:\n%s\nover HTTP\n%s", asked[i].url, asked[i].body, body, a.body);
        free(body);
        answer_free(&a);
    }
    daemon_stop(&d);
    free_results(&r);
    free(said);
    free(p.dir);
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

/* Bodies that workers read, and those that are too large for anybody. */
TEST(batch_answers_large_bodies) {
    static char large[9000], larger[20000];
    snprintf(large, sizeof large, "{\"prompt\":\"%8000s\"}", "river");
    snprintf(larger, sizeof larger, "{\"prompt\":\"%18000s\"}", "river");
    const Asked asked[] = {{"/tokenize", large}, {"/tokenize", larger}, {"/v1/completions", large}};
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
    Place p = place_of(CHECKPOINT_SMALL);
    Buffer b = {0};
    for (size_t i = 0; i < COUNTOF(cases); i++)
        buffer_print(&b, "%s%s", cases[i].line, i + 1 < COUNTOF(cases) ? "\n" : "");
    write_requests(&p, &b);
    for (int again = 0; again < 2; again++) {
        CHECK(run_batch(&p, "", NULL) == 3);
        Results r = results_of(&p);
        CHECK_MSG(r.n == (int)COUNTOF(cases) - 1, "%s", r.text);
        for (size_t i = 0; i < COUNTOF(cases); i++) {
            char id[32];
            snprintf(id, sizeof id, "batch_req_%zu", i + 1);
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
        free_results(&r);
    }
    free(p.dir);
}

/* A line of any length takes no more memory than one that may be asked. */
TEST(batch_passes_over_endless_lines) {
    enum { ENDLESS = 40 << 20 };
    Place p = place_of(CHECKPOINT_SMALL);
    Buffer b = {0};
    char *xs = xmalloc(ENDLESS);
    memset(xs, 'x', ENDLESS);
    buffer_append(&b, xs, ENDLESS);
    buffer_text(&b, "\n");
    put_line(&b, "a", "/tokenize", "{\"prompt\":\"x\"}");
    write_requests(&p, &b);
    CHECK(run_batch(&p, "", NULL) == 3);
    Results r = results_of(&p);
    CHECK_MSG(r.n == 2 && strstr(r.text, "line 1: its 41943040 bytes are more than --max-body"), "%s", r.text);
    CHECK(json_number(result_of(&r, "a"), "response.status_code") == 200);
    free_results(&r);
    free(xs);
    free(p.dir);
}

/* ---- ends before the end ---- */

enum { MANY = 160 };

static void write_many(const Place *p, int n, const char *more) {
    Buffer b = {0};
    for (int i = 0; i < n; i++) {
        char id[16], body[200];
        snprintf(id, sizeof id, "r%d", i);
        snprintf(body, sizeof body, "{\"prompt\":\"The river\",\"max_tokens\":24,\"seed\":%d%s}", i, more);
        put_line(&b, id, "/v1/completions", body);
    }
    write_requests(p, &b);
}

static int count_results(const Place *p) {
    char *text = test_read_file(p->out, NULL);
    int n = text ? text_count(text, "\n") : 0;
    free(text);
    return n;
}

/* A batch that runs, and has written a line. */
static pid_t begin_batch(const Place *p) {
    static const double PATIENCE = 60 * SLOWNESS; /* seconds */
    const char *build = getenv("BUILD");
    char program[512];
    int before = count_results(p);
    snprintf(program, sizeof program, "%s/noised", build ? build : "build");
    fflush(stdout);
    pid_t pid = fork();
    BUG_ON(pid < 0);
    if (pid == 0) {
        if (!freopen("/dev/null", "a", stdout) || !freopen("/dev/null", "a", stderr)) _exit(127);
        execl(program, program, "--model", p->model, "--batch", p->in, "--out", p->out, "--threads", "1", "--max-batch",
              "2", (char *)NULL);
        _exit(127);
    }
    for (double until = now_seconds() + PATIENCE; count_results(p) <= before && now_seconds() < until;) usleep(500);
    return pid;
}

static char *text_of(const Results *r, int i) {
    char id[16];
    snprintf(id, sizeof id, "r%d", i);
    return json_raw(result_of(r, id), "response.body.choices");
}

/* Each request once, with what an undisturbed run says; `before` is still there. */
static void check_whole(const Place *p, const Results *right, const char *before) {
    Results r = results_of(p);
    CHECK_MSG(r.n == right->n, "%d results of %d", r.n, right->n);
    CHECK(!strncmp(r.text, before, strlen(before)));
    for (int i = 0; i < right->n; i++) {
        char *is = text_of(&r, i), *should = text_of(right, i);
        CHECK_MSG(is && should && !strcmp(is, should), "r%d: %s, not %s", i, is, should);
        free(is);
        free(should);
    }
    free_results(&r);
}

TEST(batch_goes_on_where_it_was) {
    static const int signals[] = {SIGKILL, SIGINT, SIGTERM, SIGHUP, SIGKILL};
    Place right_place = place_of(CHECKPOINT_SMALL), p = place_of(CHECKPOINT_SMALL);
    write_many(&right_place, MANY, "");
    write_many(&p, MANY, "");
    REQUIRE(run_batch(&right_place, "", NULL) == 0);
    Results right = results_of(&right_place);
    char *before = xstrdup("");
    int stopped = 0;
    for (size_t i = 0; i < COUNTOF(signals); i++) {
        int status;
        pid_t pid = begin_batch(&p);
        kill(pid, signals[i]);
        waitpid(pid, &status, 0);
        bool ended =
            signals[i] == SIGKILL ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 128 + signals[i];
        bool whole = WIFEXITED(status) && WEXITSTATUS(status) == 0; /* it was faster */
        CHECK_MSG(ended || whole, "signal %d: %x", signals[i], (unsigned)status);
        stopped += ended;
        char *now = test_read_file(p.out, NULL);
        CHECK(now && !strncmp(now, before, strlen(before)));
        free(before);
        before = now;
    }
    CHECK_MSG(stopped > 0, "all of it was done before any signal came");
    char *torn;
    if (asprintf(&torn, "%s{\"id\":\"batch_req_9\",\"custom_id\":\"r8\",\"resp", before) < 0) return;
    test_write_file(p.out, torn, strlen(torn));
    CHECK(run_batch(&p, "", NULL) == 0);
    check_whole(&p, &right, before);
    free(torn);
    free(before);
    free_results(&right);
    free(right_place.dir);
    free(p.dir);
}

TEST(batch_says_when_the_disk_is_full) {
    Place right_place = place_of(CHECKPOINT_SMALL), p = place_of(CHECKPOINT_SMALL);
    const char *build = getenv("BUILD");
    char command[1500], says[300];
    write_many(&right_place, MANY, "");
    write_many(&p, MANY, "");
    REQUIRE(run_batch(&right_place, "", NULL) == 0);
    Results right = results_of(&right_place);
    test_path(says, p.dir, "says");
    snprintf(command, sizeof command,
             "bash -c 'ulimit -f 16; %s/noised --model %s --threads 1 --batch %s --out %s >/dev/null 2>%s'",
             build ? build : "build", p.model, p.in, p.out, says);
    int status = system(command);
    char *said = test_read_file(says, NULL), *before = test_read_file(p.out, NULL);
    CHECK_MSG(WEXITSTATUS(status) == 1 && strstr(said, "out.jsonl cannot be written: File too large"), "%d: %s", status,
              said);
    size_t n = strlen(before);
    CHECK_MSG(n > 0 && n <= 16 << 10 && before[n - 1] == '\n', "%zu bytes", n);
    CHECK(run_batch(&p, "", NULL) == 0);
    check_whole(&p, &right, before);
    free(said);
    free(before);
    free_results(&right);
    free(right_place.dir);
    free(p.dir);
}

/* ---- limits ---- */

TEST(batch_feeds_no_more_than_the_queue_takes) {
    Place p = place_of(CHECKPOINT_SMALL);
    write_many(&p, 60, ",\"n\":3");
    CHECK(run_batch(&p, "--max-batch 4 --max-queue 3", NULL) == 0);
    Results r = results_of(&p);
    CHECK(r.n == 60);
    for (int i = 0; i < r.n; i++) CHECK(json_number(r.lines[i], "response.status_code") == 200);
    free_results(&r);
    free(p.dir);
}

TEST(batch_remembers_thousands_of_ids) {
    enum { LINES = 3000 };
    Place p = place_of(CHECKPOINT_SMALL);
    Buffer b = {0};
    for (int i = 0; i <= LINES; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i % LINES);
        put_line(&b, id, "/tokenize", "{\"prompt\":\"x\"}");
    }
    write_requests(&p, &b);
    for (int again = 0; again < 2; again++) {
        CHECK(run_batch(&p, "", NULL) == 3);
        Results r = results_of(&p);
        CHECK(r.n == LINES + 1);
        CHECK(r.n > 0 && json_number(r.lines[r.n - 1], "error.line") == LINES + 1);
        CHECK(strstr(r.text, "custom_id \\\"0\\\" is that of line 1 too"));
        free_results(&r);
    }
    free(p.dir);
}

TEST(batch_tells_what_was_left_aside) {
    Place p = place_of(CHECKPOINT_SMALL);
    Buffer b = {0};
    put_line(&b, "a", "/tokenize", "{\"prompt\":\"x\",\"bogus\":1,\"more\":2}");
    write_requests(&p, &b);
    CHECK(run_batch(&p, "--lenient", NULL) == 0);
    Results r = results_of(&p);
    CHECK_MSG(strstr(r.text, "\"headers\":{\"x-noised-ignored\":\"bogus, more\"}"), "%s", r.text);
    free_results(&r);
    free(p.dir);
}

/* ---- the command line, and files that are something else ---- */

static void expect(const Place *p, int status, const char *says, const char *fmt, ...) {
    char options[1500], *said;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(options, sizeof options, fmt, ap);
    va_end(ap);
    int got = daemon_run(options, &said);
    CHECK_MSG(got == status && strstr(said, says), "%s in %s: %d %s", options, p->dir, got, said);
    free(said);
}

TEST(batch_refuses_what_means_nothing) {
    static const char *const for_clients[] = {"--host 127.0.0.1",
                                              "--port 0",
                                              "--insecure",
                                              "--api-key-file x",
                                              "--cors-origin x",
                                              "--allowed-host x",
                                              "--requests-per-minute 1",
                                              "--tokens-per-minute 1",
                                              "--max-connections 1",
                                              "--max-connections-per-address 1",
                                              "--max-bodies 1024",
                                              "--header-seconds 1",
                                              "--body-seconds 1",
                                              "--idle-seconds 1",
                                              "--write-seconds 1",
                                              "--ping-seconds 1",
                                              "--queue-seconds 1",
                                              "--stream-seconds 1",
                                              "--drain-seconds 1",
                                              "--access-log",
                                              "--no-slots"};
    Place p = place_of(CHECKPOINT_SMALL);
    Buffer b = {0};
    put_line(&b, "a", "/tokenize", "{\"prompt\":\"x\"}");
    write_requests(&p, &b);
    for (size_t i = 0; i < COUNTOF(for_clients); i++) {
        char says[64];
        snprintf(says, sizeof says, "%.*s means nothing with --batch", (int)strcspn(for_clients[i], " "),
                 for_clients[i]);
        expect(&p, 2, says, "--model %s --batch %s --out %s %s", p.model, p.in, p.out, for_clients[i]);
    }
    CHECK(access(p.out, F_OK) != 0);
    expect(&p, 2, "--batch FILE goes with --out FILE", "--model %s --batch %s", p.model, p.in);
    expect(&p, 2, "--out FILE goes with --batch FILE", "--model %s --out %s", p.model, p.out);
    expect(&p, 1, "are the same file", "--model %s --batch %s --out %s", p.model, p.in, p.in);
    CHECK(link(p.in, p.out) == 0);
    expect(&p, 1, "are the same file", "--model %s --batch %s --out %s", p.model, p.in, p.out);
    CHECK(unlink(p.out) == 0);
    expect(&p, 1, "/dev/full is no regular file", "--model %s --batch %s --out /dev/full", p.model, p.in);
    expect(&p, 1, "is no regular file", "--model %s --batch %s --out %s", p.model, p.dir, p.out);
    expect(&p, 1, "nothing: No such file", "--model %s --batch %s/nothing --out %s/x", p.model, p.dir, p.dir);
    expect(&p, 1, "No such file", "--model %s --batch %s --out %s/no/x", p.model, p.in, p.dir);
    free(p.dir);
}

TEST(batch_leaves_other_files_alone) {
    static const char *const others[] = {
        "precious notes", "precious\n", "{\"a\":1}\n", "[]\n",
        "{\"id\":\"batch_req_1\",\"custom_id\":null,\"response\":{},\"error\":null}\n"};
    Place p = place_of(CHECKPOINT_SMALL);
    Buffer b = {0};
    put_line(&b, "a", "/tokenize", "{\"prompt\":\"x\"}");
    write_requests(&p, &b);
    for (size_t i = 0; i < COUNTOF(others); i++) {
        test_write_file(p.out, others[i], strlen(others[i]));
        expect(&p, 1, "out.jsonl: line 1 is no result of a batch", "--model %s --batch %s --out %s", p.model, p.in,
               p.out);
        char *text = test_read_file(p.out, NULL);
        CHECK_MSG(!strcmp(text, others[i]), "%s", text);
        free(text);
    }
    CHECK(unlink(p.out) == 0);
    int fd = open(p.out, O_RDWR | O_CREAT, 0600);
    CHECK(flock(fd, LOCK_EX) == 0);
    expect(&p, 1, "is written by another process", "--model %s --batch %s --out %s", p.model, p.in, p.out);
    close(fd);
    CHECK(run_batch(&p, "", NULL) == 0);
    b = (Buffer){0};
    put_line(&b, "other", "/tokenize", "{\"prompt\":\"x\"}");
    write_requests(&p, &b);
    expect(&p, 0, "1 results in", "--model %s --batch %s --out %s", p.model, p.in, p.out);
    free(p.dir);
}

TEST(batch_draws_a_bar_on_a_terminal) {
    Place p = place_of(CHECKPOINT_SMALL);
    char text[4096] = "";
    size_t n = 0;
    write_many(&p, 4, "");
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    BUG_ON(master < 0 || grantpt(master) || unlockpt(master));
    ioctl(master, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = 80});
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    const char *build = getenv("BUILD");
    char program[512];
    snprintf(program, sizeof program, "%s/noised", build ? build : "build");
    fflush(stdout);
    pid_t pid = fork();
    BUG_ON(pid < 0);
    if (pid == 0) {
        if (dup2(slave, STDOUT_FILENO) < 0 || !freopen("/dev/null", "a", stderr)) _exit(127);
        execl(program, program, "--model", p.model, "--batch", p.in, "--out", p.out, "--threads", "1", (char *)NULL);
        _exit(127);
    }
    close(slave);
    for (ssize_t r; n < sizeof text - 1 && (r = read(master, text + n, sizeof text - 1 - n)) > 0;) n += (size_t)r;
    waitpid(pid, NULL, 0);
    close(master);
    CHECK_MSG(strstr(text, "\r\033[K[########################] 4/4 lines"), "%s", text);
    CHECK_MSG(strstr(text, "out.jsonl: 4 results, 0 of them errors"), "%s", text);
    free(p.dir);
}
