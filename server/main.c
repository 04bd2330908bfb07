/* noised: serves one checkpoint over HTTP. Starts everything, waits for a signal, stops everything in order. */
#include "options.h"
#include "probe.h"
#include "routes.h"

#include "../model/kernels/kernels.h"
#include "../model/runtime.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int usage_error(const char *message) {
    fprintf(stderr, "noised: %s (see noised --help)\n", message);
    return 2;
}

static int failure(const char *message) {
    fprintf(stderr, "noised: %s\n", message);
    return 1;
}

/* The last component of the folder's path. The string is the caller's. */
static char *folder_name(const char *dir) {
    char *real = realpath(dir, NULL);
    char *slash = real ? strrchr(real, '/') : NULL;
    char *name = xstrdup(slash && slash[1] ? slash + 1 : "model");
    free(real);
    return name;
}

static Dtype kv_dtype(const Options *o, const Model *m) {
    if (o->kv_dtype) return strcmp(o->kv_dtype, "f32") ? DTYPE_BF16 : DTYPE_F32;
    return m->embed.dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_BF16;
}

static KvForm kv_form(const Options *o, const Model *m) {
    if (o->kv_form) return strcmp(o->kv_form, "compact") ? KV_EXPANDED : KV_COMPACT;
    return config_kv_form(&m->cfg);
}

/* True when a signal came before `until`. */
static bool wait_signal(const sigset_t *signals, double until) {
    double left = MAX(until - now_seconds(), 0);
    struct timespec t = {.tv_sec = (time_t)left, .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
    return sigtimedwait(signals, NULL, &t) > 0;
}

/* Running answers may finish within the limit (a second signal ends it at once); the rest is cut with an error that its
 * client gets to read. */
static void drain(Server *s, Http *http, double limit, const sigset_t *signals) {
    static const double TICK = 0.05, FAREWELL = 2; /* seconds */
    double until = now_seconds() + limit;
    log_line("draining: up to %g s for what is running", limit);
    atomic_store(&s->draining, true);
    engine_drain(s->engine);
    bool hurry = false;
    while (!hurry && now_seconds() < until && !(engine_idle(s->engine) && http_busy(http) == 0))
        hurry = wait_signal(signals, now_seconds() + TICK);
    atomic_store(&s->cut, true);
    http_wake_all(http);
    until = now_seconds() + FAREWELL;
    while (now_seconds() < until && http_busy(http) > 0) wait_signal(signals, now_seconds() + TICK);
}

static int serve(const Options *o, Server *s, const sigset_t *signals) {
    Err err;
    Http *http;
    HttpHandler handler = routes_handler(s);
    if (http_start(&http, &o->http, &handler, &err)) {
        engine_stop(s->engine);
        return failure(err.msg);
    }
    bool v6 = strchr(o->http.host, ':') != NULL;
    printf("listening on http://%s%s%s:%d\n", v6 ? "[" : "", o->http.host, v6 ? "]" : "", http_port(http));
    fflush(stdout);
    int signal_number;
    sigwait(signals, &signal_number);
    drain(s, http, o->drain_seconds, signals);
    http_stop(http);
    engine_stop(s->engine); /* after this nobody calls http_wake */
    http_free(http);
    log_line("stopped");
    return 0;
}

static int run(const Options *o, Checkpoint *checkpoint, const Auth *auth, const char *name, const sigset_t *signals) {
    Err err;
    Server s = {.auth = auth, .created = (int64_t)time(NULL)};
    EngineOptions engine = o->engine;
    const Model *m = &checkpoint->model;
    char fingerprint[64];
    snprintf(fingerprint, sizeof fingerprint, "%.12s-%s-%s", checkpoint->hash, NOISED_VERSION, kernels->name);
    engine.kv_dtype = kv_dtype(o, m);
    engine.kv_form = kv_form(o, m);
    s.api =
        (ApiContext){.limits = o->limits, .model_name = name, .config = &m->cfg, .tokenizer = checkpoint->tokenizer};
    if (engine_start(&s.engine, checkpoint, &engine, &err)) return failure(err.msg);
    s.completion = (CompletionContext){.api = &s.api,
                                       .engine = s.engine,
                                       .fingerprint = fingerprint,
                                       .has_noise = m->cfg.noise.scope != NOISE_NONE,
                                       .cut = &s.cut};
    log_line("serving %s as \"%s\", fingerprint %s", o->model, name, fingerprint);
    return serve(o, &s, signals);
}

int main(int argc, char **argv) {
    Options o;
    Err err;
    Auth auth = {0};
    Checkpoint checkpoint;
    sigset_t signals;
    runtime_tune(argv);
    if (options_parse(&o, argc, argv, &err)) return usage_error(err.msg);
    if (o.help) return options_print_help(stdout), 0;
    if (o.version) return puts("noised " NOISED_VERSION), 0;
    if (o.probe) return probe_get(o.probe, &err) ? failure(err.msg) : 0;
    /* Blocked before any thread starts, so that only the main thread sees them. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (kernels_init(&err)) return failure(err.msg);
    if (o.api_key_file && auth_load(&auth, o.api_key_file, &err)) return failure(err.msg);
    if (checkpoint_open(&checkpoint, o.model, &err)) return failure(err.msg);
    int rc;
    if (checkpoint.tokenizer) {
        char *name = o.model_name ? xstrdup(o.model_name) : folder_name(o.model);
        rc = run(&o, &checkpoint, &auth, name, &signals);
        free(name);
    } else {
        rc = failure("the checkpoint has no tokenizer.json");
    }
    checkpoint_close(&checkpoint);
    auth_free(&auth);
    return rc;
}
