/* bench_load: what clients of a /v1/completions server get to feel. Any OpenAI-compatible server will do; several
 * --url stand side by side in one table, asked the same things in turns.
 *
 *     bench-load --url http://127.0.0.1:8080 --url http://127.0.0.1:8081 --clients 1,8,32 --prompt-tokens 512
 *
 * --clients C: C clients, each of which sends its next request when it has its answer (closed loop).
 * --rate R: R requests a second that arrive by chance, however slow the answers are (open loop).
 * --beside N: each row alone and with N more clients beside it that send large bodies, by turns; then what that does to
 * the gaps. */
#include "base/err.h"
#include "base/memory.h"
#include "tests/bench/load_report.h"
#include "tests/bench/load_uploads.h"
#include "tests/bench/load_workload.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_URLS = 8, MOST_LOADS = 32 };

typedef struct Options {
    const char *urls[MOST_URLS];
    double clients[MOST_LOADS], rates[MOST_LOADS];
    int n_urls, n_clients, n_rates;
    int requests; /* 0: four a client, or ten seconds' worth */
    int beside, rounds;
    bool same;
    Workload workload;
    Slo slo;
} Options;

static const char usage[] = "usage: bench-load --url http://HOST:PORT [--url ...] [option...]\n\n"
                            "  --clients N,N,...    clients that send one request after the other (1,8,16,32)\n"
                            "  --rate R,R,...       requests a second that arrive by chance, instead of clients\n"
                            "  --requests N         per row (4 a client, or 10 seconds' worth)\n"
                            "  --beside N           each row also with N clients beside it that send 256 KiB bodies\n"
                            "  --rounds N           such pairs of rows (5)\n"
                            "  --prompt-tokens N    random prompts of so many token ids (64)\n"
                            "  --prompt TEXT        the prompt of all requests, instead\n"
                            "  --max-tokens N       tokens to generate, no fewer (128)\n"
                            "  --same yes|no        also how many answers differ of one request, repeated (yes)\n"
                            "  --model NAME         the field \"model\" (left out)\n"
                            "  --seed N             another workload (1)\n"
                            "  --slo-first MS       what counts as good: time to the first text (1000)\n"
                            "  --slo-gap MS         and the mean time between two pieces of it (100)\n";

static int fail(const char *fmt, const char *what) {
    fprintf(stderr, "bench-load: ");
    fprintf(stderr, fmt, what);
    fprintf(stderr, "\n");
    return 2;
}

/* Positive numbers separated by commas. */
static int read_list(double *list, int most, int *n, const char *text) {
    char *end;
    *n = 0;
    for (;; text = end + 1) {
        double x = strtod(text, &end);
        if (end == text || !(x > 0 && x <= 1e6) || *n == most) return -1;
        list[(*n)++] = x;
        if (*end == 0) return 0;
        if (*end != ',') return -1;
    }
}

static int read_count(int *out, const char *text) {
    double x;
    int n;
    if (read_list(&x, 1, &n, text) || x < 1) return -1;
    *out = (int)x;
    return 0;
}

static int read_ms(double *out, const char *text) {
    int n, rc = read_list(out, 1, &n, text);
    *out *= 1e-3;
    return rc;
}

static int read_option(Options *o, const char *name, const char *value) {
    Workload *w = &o->workload;
    int seed;
    if (!strcmp(name, "--url")) return o->n_urls < MOST_URLS ? (o->urls[o->n_urls++] = value, 0) : -1;
    if (!strcmp(name, "--clients")) return read_list(o->clients, MOST_LOADS, &o->n_clients, value);
    if (!strcmp(name, "--rate")) return read_list(o->rates, MOST_LOADS, &o->n_rates, value);
    if (!strcmp(name, "--requests")) return read_count(&o->requests, value);
    if (!strcmp(name, "--beside")) return read_count(&o->beside, value);
    if (!strcmp(name, "--rounds")) return read_count(&o->rounds, value);
    if (!strcmp(name, "--prompt-tokens")) return read_count(&w->prompt_tokens, value);
    if (!strcmp(name, "--prompt")) return w->prompt = value, 0;
    if (!strcmp(name, "--max-tokens")) return read_count(&w->max_tokens, value);
    if (!strcmp(name, "--same")) return o->same = !strcmp(value, "yes"), o->same || !strcmp(value, "no") ? 0 : -1;
    if (!strcmp(name, "--model")) return w->model = value, 0;
    if (!strcmp(name, "--seed")) return read_count(&seed, value) ? -1 : (w->seed = (uint64_t)seed, 0);
    if (!strcmp(name, "--slo-first")) return read_ms(&o->slo.first, value);
    if (!strcmp(name, "--slo-gap")) return read_ms(&o->slo.gap, value);
    return -1;
}

static int read_options(Options *o, int argc, char **argv) {
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) return fail("%s needs a value", argv[i]);
        if (read_option(o, argv[i], argv[i + 1])) return fail("unknown option or bad value: %s", argv[i]);
    }
    if (o->n_urls == 0) return fail("%s", "--url is missing");
    if (o->n_clients + o->n_rates == 0) return read_list(o->clients, MOST_LOADS, &o->n_clients, "1,8,16,32");
    return 0;
}

/* ---- one row ---- */

static LoadAnswer *run(const Workload *w, const char *url, int n, int most, double *seconds) {
    LoadRequest *requests = workload_make(w, url, n);
    LoadAnswer *answers = xcalloc((size_t)n, sizeof *answers);
    *seconds = load_run(requests, answers, n, most);
    workload_free(requests, n);
    return answers;
}

static char *completions_of(const char *url) {
    size_t n = strlen(url);
    char *full = xmalloc(n + sizeof "/v1/completions");
    while (n > 0 && url[n - 1] == '/') n--;
    memcpy(full, url, n);
    strcpy(full + n, "/v1/completions");
    return full;
}

/* Asks for one token: a server that cannot do that would fill the table with nothing. Of another prompt than those that
 * are measured, which it would find in the server's cache. */
static int try_server(const Options *o, const char *url) {
    Workload w = o->workload;
    char *full = completions_of(url);
    double seconds;
    w.max_tokens = 1;
    w.seed = ~w.seed;
    LoadAnswer *a = run(&w, full, 1, 1, &seconds);
    bool fine = a->status == 200;
    if (!fine)
        fprintf(stderr, "bench-load: %s: status %d %s\n%s\n", full, a->status, a->error ? a->error : "", a->body);
    load_answers_free(a, 1);
    free(a);
    free(full);
    return fine ? 0 : 2;
}

/* One request over and over, among as many others: how many different answers does it get? */
static int run_same(const Options *o, const char *url, int clients, int *n_same) {
    Workload w = o->workload;
    int n = MAX(2 * clients, 8);
    double seconds;
    w.repeated = true;
    w.max_tokens = MIN(w.max_tokens, 32);
    LoadAnswer *answers = run(&w, url, n, clients, &seconds);
    int distinct = count_distinct(answers, n);
    *n_same = n / 2;
    load_answers_free(answers, n);
    free(answers);
    return distinct;
}

static Figures run_row(const Options *o, const char *server, int clients, double rate, int beside) {
    Workload w = o->workload;
    w.rate = rate;
    int n = o->requests ? o->requests : rate > 0 ? MAX((int)(10 * rate), 1) : 4 * clients, n_same = 0, n_distinct = 0;
    char load[32], *url = completions_of(server);
    double seconds;
    Uploads *uploads = beside ? uploads_start(server, beside) : NULL;
    LoadAnswer *answers = run(&w, url, n, rate > 0 ? n : clients, &seconds);
    int sent = beside ? uploads_stop(uploads) : 0;
    Figures f = figures_of(answers, n, seconds, o->slo);
    load_answers_free(answers, n);
    free(answers);
    if (clients > 0 && o->same && !o->beside) n_distinct = run_same(o, url, clients, &n_same);
    snprintf(load, sizeof load, rate > 0 ? "%g req/s" : "%g clients", rate > 0 ? rate : (double)clients);
    report_row(strstr(server, "://") ? strstr(server, "://") + 3 : server, load, &f, n_distinct, n_same);
    if (beside) printf("  with %d beside, %.1f bodies/s answered\n", beside, sent / seconds);
    free(url);
    return f;
}

/* Row by row in turns, for the machine's mood changes from one minute to the next. */
static void run_beside(const Options *o, const char *server, int clients, double rate) {
    double *alone = xcalloc((size_t)o->rounds, sizeof *alone), *beside = xcalloc((size_t)o->rounds, sizeof *beside);
    double *ratio = xcalloc((size_t)o->rounds, sizeof *ratio);
    for (int i = 0; i < o->rounds; i++) {
        alone[i] = run_row(o, server, clients, rate, 0).gap.p99;
        beside[i] = run_row(o, server, clients, rate, o->beside).gap.p99;
        ratio[i] = beside[i] / alone[i];
    }
    printf("gap p99, medians of %d: alone %.1f ms, with %d beside %.1f ms; ratio of a pair %.2f\n", o->rounds,
           1000 * spread_of(alone, o->rounds).p50, o->beside, 1000 * spread_of(beside, o->rounds).p50,
           spread_of(ratio, o->rounds).p50);
    free(alone);
    free(beside);
    free(ratio);
}

static void run_load(const Options *o, const char *server, int clients, double rate) {
    if (o->beside)
        run_beside(o, server, clients, rate);
    else
        run_row(o, server, clients, rate, 0);
}

int main(int argc, char **argv) {
    Options o = {.workload = {.prompt_tokens = 64, .max_tokens = 128, .seed = 1},
                 .slo = {.first = 1, .gap = 0.1},
                 .rounds = 5,
                 .same = true};
    if (argc > 1 && !strcmp(argv[1], "--help")) return fputs(usage, stdout), 0;
    if (read_options(&o, argc, argv)) return fputs(usage, stderr), 2;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    for (int u = 0; u < o.n_urls; u++)
        if (try_server(&o, o.urls[u])) return 2;
    if (o.workload.prompt)
        printf("prompt \"%s\"", o.workload.prompt);
    else
        printf("prompts of %d tokens", o.workload.prompt_tokens);
    printf(", %d tokens generated; good: first text within %g ms, mean gap at most %g ms\n\n", o.workload.max_tokens,
           1000 * o.slo.first, 1000 * o.slo.gap);
    report_head();
    for (int k = 0; k < o.n_clients; k++)
        for (int u = 0; u < o.n_urls; u++) run_load(&o, o.urls[u], (int)o.clients[k], 0);
    for (int k = 0; k < o.n_rates; k++)
        for (int u = 0; u < o.n_urls; u++) run_load(&o, o.urls[u], 0, o.rates[k]);
    curl_global_cleanup();
    return 0;
}
