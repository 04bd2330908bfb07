/* The tasks' routes when many ask at once, when a client goes, and when the daemon ends. */
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/bench/load_client.h"
#include "tests/support/http_client.h"
#include "tests/support/pictures.h"

#include <math.h>
#include <png.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- bodies of everything that a request may ask for ---- */

static void print_text(FILE *f, Draws *d) {
    static const char *const texts[] = {"\"The river\"", "\"the miller counts the stones, and the river runs\"",
                                        "\"Gr\xC3\xBC\xC3\x9F"
                                        "e aus K\xC3\xB6ln\"",
                                        "\"again\""};
    fputs(texts[draw_below(d, COUNTOF(texts))], f);
}

/* Token 7 is the mask. */
static void print_masked(FILE *f, Draws *d) {
    fputs("[7", f);
    for (int n = (int)draw_below(d, 60); n > 0; n--) fprintf(f, ",%d", 4 + (int)draw_below(d, 200));
    fputs("]", f);
}

static void print_picture(FILE *f, Draws *d) {
    unsigned char pixels[24];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (unsigned char)draw_below(d, 256);
    char *url = test_picture_url(pixels, 6, 4, PNG_FORMAT_GRAY, 0);
    fprintf(f, "{\"image\":\"%s\"}", url);
    free(url);
}

typedef struct Route {
    TestCheckpoint kind;
    const char *path, *more;
    void (*print)(FILE *f, Draws *d);
} Route;

static const Route routes[] = {{CHECKPOINT_CLASSES, "/v1/classify", "", print_text},
                               {CHECKPOINT_TAGS, "/v1/tag", "", print_text},
                               {CHECKPOINT_MASKS, "/v1/fill-mask", ",\"top_k\":4", print_masked},
                               {CHECKPOINT_IMAGES, "/v1/classify", "", print_picture}};

static char *make_body(const Route *r, int index) {
    char *body;
    size_t size;
    Draws d = draws_open(53, DRAW_TEST, (uint32_t)index);
    FILE *f = open_memstream(&body, &size);
    fprintf(f, "{\"noise_seed\":%u%s,\"input\":[", draw_u32(&d), r->more);
    for (int n = 1 + (int)draw_below(&d, 3); n > 0; n--) {
        r->print(f, &d);
        fputs(n > 1 ? "," : "]", f);
    }
    if (draw_below(&d, 2)) fprintf(f, ",\"noise_samples\":%d", 2 + (int)draw_below(&d, 3));
    if (draw_below(&d, 2)) fprintf(f, ",\"noise_scale\":%d", 3 * (int)draw_below(&d, 2));
    fputc('}', f);
    BUG_ON(fclose(f));
    return body;
}

static void post_all(const Daemon *d, const char *path, char *const *bodies, LoadAnswer *answers, int n, int most) {
    LoadRequest *requests = xcalloc((size_t)n, sizeof *requests);
    const char *url = test_text("http://127.0.0.1:%d%s", d->port, path);
    for (int i = 0; i < n; i++) requests[i] = (LoadRequest){.url = url, .body = bodies[i]};
    load_run(requests, answers, n, most);
    free(requests);
}

static void check_route(const Route *r) {
    enum { N = 60, CLIENTS = 20 };
    Daemon d;
    LoadAnswer alone[N], crowd[N];
    char *bodies[N];
    for (int i = 0; i < N; i++) bodies[i] = make_body(r, i);
    REQUIRE(daemon_start(&d, r->kind, NULL));
    post_all(&d, r->path, bodies, alone, N, 1);
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, r->kind, "--threads 2 --prefill-chunk 16 --max-batch 7"));
    post_all(&d, r->path, bodies, crowd, N, CLIENTS);
    daemon_stop(&d);
    for (int i = 0; i < N; i++)
        CHECK_MSG(alone[i].status == 200 && crowd[i].status == 200 && !strcmp(alone[i].body, crowd[i].body),
                  "%s of %s: %d\n%.900s\n%d\n%.900s", r->path, bodies[i], alone[i].status, alone[i].body,
                  crowd[i].status, crowd[i].body);
    load_answers_free(alone, N);
    load_answers_free(crowd, N);
    for (int i = 0; i < N; i++) free(bodies[i]);
}

TEST(tasks_are_the_same_in_a_crowd) {
    for (size_t i = 0; i < COUNTOF(routes); i++) check_route(&routes[i]);
}

/* ---- a request that takes its time ---- */

enum { INPUTS = 4, TOKENS = 300, SAMPLES = 16, LASTING = 3000 /* samples of what outlasts a test */ };

#define LARGE "--max-n 4096 --max-queue 16384 --queue-seconds 3000 " /* which takes such a request */

static char *long_body(int samples) {
    char *body;
    size_t size;
    FILE *f = open_memstream(&body, &size);
    fprintf(f, "{\"noise_seed\":1,\"noise_samples\":%d,\"input\":[", samples);
    for (int i = 0; i < INPUTS; i++)
        for (int k = 0; k < TOKENS; k++)
            fprintf(f, "%s%d%s", k ? "," : "[", 4 + (i + k) % 200, k < TOKENS - 1 ? "" : i < INPUTS - 1 ? "]," : "]]}");
    BUG_ON(fclose(f));
    return body;
}

/* The value of a series of /metrics, NaN when it is not there. */
static double metric(const Daemon *d, const char *series) {
    Answer a = metrics_now(d);
    const char *line = test_text("\n%s ", series);
    const char *at = strstr(a.body, line);
    double value = at ? strtod(at + strlen(line), NULL) : (double)NAN;
    return value;
}

/* Until so many requests are here, of which the first has begun. */
static bool waits(const Daemon *d, int requests) {
    for (double t0 = now_seconds(); now_seconds() - t0 < PATIENCE; usleep(500)) {
        Answer a = http_get(d, "/streams");
        const cJSON *data = json_at(a.json, "data");
        bool so = cJSON_GetArraySize(data) == requests && json_number(data, "0.running") > 0;
        if (so) return true;
    }
    return false;
}

/* A request whose answer nobody will wait for; its socket. */
static int post_lasting(const Daemon *d) {
    char *body = long_body(LASTING), head[200];
    int fd = raw_connect(d);
    int n = snprintf(head, sizeof head,
                     "POST /v1/classify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu"
                     "\r\n\r\n",
                     strlen(body));
    CHECK(raw_send(fd, head, (size_t)n) && raw_send(fd, body, strlen(body)));
    free(body);
    CHECK(waits(d, 1));
    return fd;
}

static bool comes_to(const Daemon *d, const char *series, double value) {
    for (double t0 = now_seconds(); now_seconds() - t0 < PATIENCE; usleep(2000))
        if (metric(d, series) == value) return true;
    return false;
}

typedef struct Crowd {
    pthread_t thread;
    const Daemon *daemon;
    char **bodies;
    LoadAnswer *answers;
    int n, lasting; /* the socket of what runs before theirs */
} Crowd;

static void *post_crowd(void *arg) {
    const Crowd *c = arg;
    post_all(c->daemon, "/v1/classify", c->bodies, c->answers, c->n, c->n);
    return NULL;
}

/* n long requests at once, which wait behind one that lasts until its socket is closed. */
static void crowd_start(Crowd *c, const Daemon *d, int n) {
    *c = (Crowd){.daemon = d, .n = n, .lasting = post_lasting(d)};
    c->bodies = xcalloc((size_t)n, sizeof *c->bodies);
    c->answers = xcalloc((size_t)n, sizeof *c->answers);
    for (int i = 0; i < n; i++) c->bodies[i] = long_body(SAMPLES);
    pthread_create(&c->thread, NULL, post_crowd, c);
    CHECK_MSG(waits(d, n + 1), "not all requests came");
}

static void crowd_end(Crowd *c) {
    load_answers_free(c->answers, c->n);
    for (int i = 0; i < c->n; i++) free(c->bodies[i]);
    free(c->bodies);
    free(c->answers);
}

/* What was accepted is answered as ever, and nobody else is let in. */
TEST(tasks_drain_finishes) {
    Daemon d;
    Crowd crowd;
    char *body = long_body(SAMPLES);
    REQUIRE(daemon_start(&d, CHECKPOINT_CLASSES, NULL));
    Answer want = http_post(&d, "/v1/classify", body);
    CHECK_MSG(want.status == 200, "%s", want.body);
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_CLASSES, LARGE "--drain-seconds 3000 --max-batch 2"));
    crowd_start(&crowd, &d, 3);
    kill(d.pid, SIGTERM);
    REQUIRE(drain_begins(&d, "/v1/classify", "{\"input\":\"a\"}"));
    close(crowd.lasting);
    pthread_join(crowd.thread, NULL);
    for (int i = 0; i < crowd.n; i++)
        CHECK_MSG(crowd.answers[i].status == 200 && !strcmp(crowd.answers[i].body, want.body), "request %d: %d %s", i,
                  crowd.answers[i].status, crowd.answers[i].body);
    CHECK(daemon_stop(&d) == 0);
    crowd_end(&crowd);
    free(body);
}

TEST(tasks_drain_limit_cuts) {
    Daemon d;
    Crowd crowd;
    REQUIRE(daemon_start(&d, CHECKPOINT_CLASSES, LARGE "--drain-seconds 0.1 --max-batch 1"));
    crowd_start(&crowd, &d, 3);
    kill(d.pid, SIGTERM);
    pthread_join(crowd.thread, NULL);
    int cut = 0;
    for (int i = 0; i < crowd.n; i++) {
        const LoadAnswer *a = &crowd.answers[i];
        cut += a->status == 503 && strstr(a->body, "\"code\":\"shutting_down\"");
    }
    CHECK_MSG(cut == crowd.n, "%d of %d were cut", cut, crowd.n);
    close(crowd.lasting);
    daemon_stop(&d);
    crowd_end(&crowd);
}

/* ---- bounds and figures ---- */

TEST(tasks_queue_full) {
    Daemon d;
    Crowd crowd;
    REQUIRE(daemon_start(&d, CHECKPOINT_CLASSES, LARGE "--max-batch 1"));
    crowd_start(&crowd, &d, 1);
    Answer a = http_post(&d, "/v1/classify", "{\"input\":[\"a\",\"b\",\"c\",\"d\"],\"noise_samples\":4096}");
    char *seconds = answer_header(&a, "Retry-After");
    CHECK_MSG(a.status == 429 && seconds && atoi(seconds) >= 1, "%d %s", a.status, a.headers);
    free(seconds);
    a = http_post(&d, "/v1/classify", "{\"input\":[\"a\",\"b\",\"c\",\"d\",\"e\"],\"noise_samples\":4096}");
    answer_check_error(&a, 400, "noise_samples", "more than it ever holds");
    close(crowd.lasting);
    pthread_join(crowd.thread, NULL);
    CHECK_MSG(crowd.answers[0].status == 200, "%s", crowd.answers[0].body);
    daemon_stop(&d);
    crowd_end(&crowd);
}

/* A choice is a sample of an input; the prompts count as usage says. */
TEST(tasks_metrics) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_CLASSES, "--max-batch 2"));
    Answer a = http_post(&d, "/v1/classify", "{\"input\":[[5,6,7],[8,9]],\"noise_samples\":3}");
    CHECK_MSG(a.status == 200 && json_number(a.json, "usage.prompt_tokens") == 5, "%s", a.body);
    a = http_post(&d, "/v1/classify", "{\"input\":[[]]}");
    CHECK(a.status == 400);
    CHECK(comes_to(&d, "noised_choices_total{finish=\"length\"}", 6));
    CHECK(metric(&d, "noised_prompt_tokens_total") == 5 && metric(&d, "noised_generated_tokens_total") == 0);
    CHECK(metric(&d, "noised_queue_seconds_count") == 6 && metric(&d, "noised_end_to_end_seconds_count") == 6);
    CHECK(metric(&d, "vllm:request_prompt_tokens_sum{engine=\"0\",model_name=\"tiny\"}") == 15);
    CHECK(metric(&d, "noised_http_answers_total{class=\"4xx\"}") == 1);
    daemon_stop(&d);
}

TEST(tasks_of_a_client_that_goes) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_CLASSES, LARGE "--max-batch 2"));
    close(post_lasting(&d));
    static const char *const gauges[] = {"noised_running", "noised_queued", "noised_kv_blocks_used"};
    for (size_t i = 0; i < COUNTOF(gauges); i++) CHECK_MSG(comes_to(&d, gauges[i], 0), "%s", gauges[i]);
    CHECK(comes_to(&d, "noised_http_hung_up_total", 1));
    CHECK_MSG(metric(&d, "noised_choices_total{finish=\"cancelled\"}") > 0, "it went on without its client");
    daemon_stop(&d);
}
