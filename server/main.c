/* noised: serves one checkpoint over HTTP. Starts everything, supervises it, stops everything in order. */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/omp_env.h"
#include "model/kernels/kernels.h"
#include "server/batch/batch.h"
#include "server/probe.h"
#include "server/scrape.h"
#include "server/supervise.h"
#include "server/systemd.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The last component of the folder's path as it was given: a link keeps its name when its target changes. Only a path
 * that ends in no name, as "." or "/", is looked up. The string is the caller's. */
static char *folder_name(const char *dir) {
    size_t end = strlen(dir);
    while (end && dir[end - 1] == '/') end--;
    size_t start = end;
    while (start && dir[start - 1] != '/') start--;
    char *name = strndup(dir + start, end - start);
    if (name && *name && strcmp(name, ".") && strcmp(name, "..")) return name;
    free(name);
    char *real = realpath(dir, NULL);
    const char *slash = real ? strrchr(real, '/') : NULL;
    name = xstrdup(slash && slash[1] ? slash + 1 : "model");
    free(real);
    return name;
}

static const double FAREWELL = 1; /* seconds that the end waits for the reader of the log */

enum { WORKERS = 2 }; /* as many large bodies at a time; the other cores compute */

static int serve(const Options *o, Server *s, const ServingContext *ctx, const sigset_t *signals, Err *err) {
    Http *http, *metrics = NULL;
    HttpHandler handler = routes_handler(s);
    if (s->max_bodies < s->max_body)
        return err_set(err, "--max-bodies is %d, less than one body may have: --max-body is %d", s->max_bodies,
                       s->max_body);
    if (workers_start(&s->workers, WORKERS, o->engine.max_queue, err)) return -1;
    if ((o->metrics_port && scrape_start(&metrics, &o->http, &handler, o->metrics_fd, err)) ||
        http_start(&http, &o->http, &handler, err)) {
        scrape_stop(metrics);
        workers_stop(s->workers);
        return -1;
    }
    bool v6 = strchr(o->http.host, ':') != NULL;
    printf("listening on http://%s%s%s:%d\n", v6 ? "[" : "", o->http.host, v6 ? "]" : "", http_port(http));
    fflush(stdout);
    if (!supervise(s, http, ctx, signals)) {
        log_flush(FAREWELL);
        _exit(0);
    }
    scrape_stop(metrics);
    http_stop(http);
    workers_stop(s->workers);
    versions_close(&s->versions); /* after this nobody calls http_wake */
    http_free(http);
    log_line("stopped");
    return 0;
}

/* The other thing that a model is loaded for. Two requests for each place in the engine's batch, so that one waits
 * where another ends. */
static int answer_batch(const Options *o, BatchFile *batch, Server *s, const sigset_t *signals, int *status, Err *err) {
    if (workers_start(&s->workers, WORKERS, o->engine.max_queue, err)) return -1;
    int rc = batch_run(batch, s, 2 * o->engine.max_batch, signals, status, err);
    workers_stop(s->workers);
    return rc;
}

/* ---- loading ---- */

/* While there is nothing to finish yet, a signal that ends the server does so at once; a batch was not done then. The
 * server's own is load's: to cancel a thread takes memory. */
static void *watch_loading(void *batch) {
    sigset_t ends;
    siginfo_t from = {0};
    int number;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGQUIT);
    while ((number = sigwaitinfo(&ends, &from)) < 0) {}
    if (from.si_pid == getpid()) return NULL;
    log_line("stopped before it was ready");
    log_flush(FAREWELL);
    _exit(batch ? 128 + number : 0);
}

static int load(Serving **first, const ServingContext *ctx, BatchFile *batch, Err *err) {
    pthread_t watcher;
    int failed = pthread_create(&watcher, NULL, watch_loading, batch);
    int rc = serving_open(first, ctx, err);
    if (failed) return rc;
    pthread_kill(watcher, SIGTERM);
    pthread_join(watcher, NULL);
    return rc;
}

/* ---- from start to end ---- */

static void warn_of_idle_noise(const ApiDefaults *d, const Config *c) {
    static const char why[] = "changes nothing: the model has no noise";
    if (c->noise.scope != NOISE_NONE) return;
    if (d->noise_seed >= 0) log_warning("--noise-seed %" PRId64 " %s", d->noise_seed, why);
    if (d->noise_scale < 1 || d->noise_scale > 1) log_warning("--noise-scale %g %s", (double)d->noise_scale, why);
}

/* batch NULL: serves. */
static int run(Options *o, Auth *auth, BatchFile *batch, const char *name, const sigset_t *signals, int *status,
               Err *err) {
    Server s = {
        .auth = auth, .models = options_models(o, name), .started = unix_seconds(), .access_log = o->access_log};
    ServingContext ctx = {.options = o, .model_name = name, .metrics = &s.metrics, .cut = &s.cut};
    s.browser = (BrowserRules){
        .origins = &o->cors_origins, .hosts = &o->allowed_hosts, .loopback = options_is_loopback(o->http.host)};
    Serving *first;
    if (load(&first, &ctx, batch, err)) return -1;
    s.max_body = o->http.max_body = options_max_body(o, first->api.config->max_positions);
    s.max_bodies = batch ? INT_MAX : o->http.max_bodies;
    pthread_mutex_init(&s.versions.mutex, NULL);
    pthread_mutex_init(&s.scrape.mutex, NULL);
    quota_open(&s.quota, o->quota);
    versions_add(&s.versions, first);
    log_line("serving %s as \"%s\", fingerprint %s", o->model, name, first->fingerprint);
    warn_of_idle_noise(&o->defaults, first->api.config);
    int rc = batch ? answer_batch(o, batch, &s, signals, status, err) : serve(o, &s, &ctx, signals, err);
    versions_close(&s.versions);
    pthread_mutex_destroy(&s.versions.mutex);
    quota_close(&s.quota);
    pthread_mutex_destroy(&s.scrape.mutex);
    buffer_free(&s.scrape.text);
    return rc;
}

/* Blocked before any thread starts, so that only the main thread sees them. */
static void block_signals(sigset_t *signals) {
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGQUIT);
    sigaddset(signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Everything that has to be there before the first connection. -1: the environment lacks something. */
static int prepare(Options *o, Auth *auth, BatchFile **batch, Err *err) {
    int port;
    if (log_detach()) return err_set(err, "cannot start the log's thread");
    if (kernels_init(err) || map_guard_install(err)) return -1;
    if (o->batch) return batch_open(batch, o->batch, o->out, err);
    /* Before it loads, for a port that somebody else has should not take that long to find out. */
    if (o->http.listen_fd < 0 && (o->http.listen_fd = http_listen(&o->http, &port, err)) < 0) return -1;
    if (o->metrics_port && (o->metrics_fd = scrape_listen(&o->http, o->metrics_port, err)) < 0) return -1;
    return o->api_key_file ? auth_load(auth, o->api_key_file, err) : 0;
}

/* Like every other line of the server where programs read them; a person who mistypes an option gets plain words. */
static int fail(const CommandLine *line, const Err *err) {
    if (log_format() == LOG_TEXT) return command_fail(line, err, EXIT_FAILED);
    log_error("%s", err->msg);
    return EXIT_FAILED;
}

static int start(const CommandLine *line) {
    Options *o = line->values;
    Err err;
    Auth auth = {0};
    BatchFile *batch = NULL;
    sigset_t signals;
    int status = EXIT_DONE;
    block_signals(&signals);
    int rc = prepare(o, &auth, &batch, &err);
    if (rc == 0) {
        char *name = o->model_name ? xstrdup(o->model_name) : folder_name(o->model);
        rc = run(o, &auth, batch, name, &signals, &status, &err);
        free(name);
    }
    batch_free(batch);
    auth_free(&auth);
    return rc ? fail(line, &err) : status;
}

static int noised(const CommandLine *line) {
    Options *o = line->values;
    Err err;
    char host[64], keys[PATH_MAX];
    if (o->probe) return probe_get(o->probe, &err) ? command_fail(line, &err, EXIT_FAILED) : EXIT_DONE;
    log_set_format((LogFormat)o->log);
    o->limits.queue = o->engine.max_queue;
    if (options_check_batch(line, &err)) return command_fail(line, &err, EXIT_USAGE);
    if (o->batch) return start(line);
    if (systemd_socket(&o->http.listen_fd, host, &err)) return fail(line, &err);
    if (o->http.listen_fd >= 0 && (command_line_given(line, "host") || command_line_given(line, "port")))
        log_warning("--host and --port change nothing: the service manager has handed over a socket");
    if (o->http.listen_fd >= 0) o->http.host = host;
    if (!o->api_key_file) o->api_key_file = systemd_credential("noised.api-key", keys);
    if (options_check_names(o, &err) || options_check_keys(o, &err)) return command_fail(line, &err, EXIT_USAGE);
    return start(line);
}

static const Command command = {
    .summary = "Serves one checkpoint over HTTP, with an API like OpenAI's and a noise seed per request.",
    .details =
        "SIGTERM, SIGINT and SIGQUIT let running answers end first; SIGHUP loads the checkpoint and the API keys "
        "again. With --batch it opens no socket, but answers the requests of a file into another, as over HTTP; "
        "however that ends, the same command goes on with it.",
    .size = sizeof(Options),
    .options = options_table,
    .n_options = OPTIONS_N,
    .run = noised,
};
static const Program program = {
    .name = "noised",
    .summary = "serve a small language model",
    .commands = (const Command *const[]){&command, NULL},
    .statuses =
        "3: all of a --batch is done, and some of its results are errors. 129, 130, 131 and 143: it was stopped by "
        "SIGHUP, SIGINT, SIGQUIT or SIGTERM.",
};

int main(int argc, char **argv) {
    runtime_tune(argv);
    int status = program_main(&program, argc, argv);
    log_flush(FAREWELL);
    return status;
}
