#include "server/supervise.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "server/systemd.h"

#include <math.h>
#include <string.h>
#include <time.h>

static const double TICK = 0.02, PAUSE = 1; /* seconds, while something is going on and when nothing is */

typedef struct Supervisor {
    Server *server;
    Http *http;
    const ServingContext *ctx;
    const sigset_t *signals;
    bool announced, unfit, reload_wanted; /* unfit: what was announced last is damaged or broken */
    double watchdog, fed;                 /* seconds between signs of life, 0: none wanted; when the last was given */
    /* ---- a reload on its way ---- */
    bool loading;
    pthread_t loader;
    atomic_bool loaded;
    Serving *made; /* NULL when it failed */
    Err err;
} Supervisor;

/* The number of a signal that came within `seconds`, else 0. */
static int wait_signal(const sigset_t *signals, double seconds) {
    struct timespec t = clock_timespec(seconds);
    int number = sigtimedwait(signals, NULL, &t);
    return MAX(number, 0);
}

/* ---- the service manager ---- */

static void announce(const Supervisor *v, const char *what) {
    Serving *s = versions_pin(&v->server->versions);
    systemd_notify("READY=1\nSTATUS=%s, fingerprint %s", what, s->fingerprint);
    versions_unpin(&v->server->versions, s);
}

/* An engine or an HTTP loop that hangs must not look alive because this thread is. */
static void show_life(Supervisor *v) {
    double now = now_seconds(), turned = 1e-9 * (double)atomic_load(&v->server->turned);
    EngineStats stats;
    if (!v->watchdog || now < v->fed + v->watchdog / 4) return;
    versions_stats(&v->server->versions, &stats);
    if (isfinite(stats.heartbeat_age) && stats.heartbeat_age > v->watchdog / 2) return;
    if (turned > 0 && now - turned > v->watchdog / 2) return;
    systemd_notify("WATCHDOG=1");
    v->fed = now;
}

static bool is_unfit(const EngineStats *stats) { return stats->damaged || stats->broken; }

/* The start, and whenever health turns for good; a reload announces itself. */
static void announce_health(Supervisor *v) {
    EngineStats stats;
    const char *status = server_status(v->server, &stats), *model = v->ctx->options->model;
    bool starts = !v->announced, unfit = is_unfit(&stats);
    if (!strcmp(status, "loading") || (!starts && unfit == v->unfit)) return;
    v->announced = true;
    v->unfit = unfit;
    if (stats.damaged)
        log_error("%s: the files were changed or cannot be read; nothing is answered until a reload of good ones",
                  model);
    else if (stats.broken)
        log_error("%s: the model's first logits are NaN or infinite; nothing is answered", model);
    else if (starts)
        log_line("ready");
    if (unfit || starts) announce(v, unfit ? status : "serving");
}

/* ---- reloads ---- */

static void *load(void *arg) {
    Supervisor *v = arg;
    Serving *before = versions_pin(&v->server->versions);
    if (serving_open_ready(&v->made, v->ctx, before, &v->err)) v->made = NULL;
    versions_unpin(&v->server->versions, before);
    atomic_store(&v->loaded, true);
    return NULL;
}

static void reread_keys(Supervisor *v) {
    const char *path = v->ctx->options->api_key_file;
    Err err;
    if (!path) return;
    if (auth_reload(v->server->auth, path, &err))
        log_warning("the API keys stay what they were: %s", err.msg);
    else
        log_line("%d API key%s", v->server->auth->n, v->server->auth->n == 1 ? "" : "s");
}

static void ask_for_reload(Supervisor *v) {
    reread_keys(v);
    systemd_notify("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(now_seconds() * 1e6));
    v->reload_wanted = true;
}

static void refuse_reload(Supervisor *v, const char *why) {
    EngineStats stats;
    versions_stats(&v->server->versions, &stats);
    bool unfit = is_unfit(&stats);
    log_warning("the reload is refused, %s: %s",
                unfit ? "and nothing is answered until there is a good one" : "the version before serves on", why);
    metrics_count(&v->server->metrics, COUNT_RELOADS_REFUSED, 1);
    announce(v,
             unfit ? "the last reload was refused; nothing is answered" : "the last reload was refused; still serving");
}

static void start_reload(Supervisor *v) {
    log_line("loading %s again", v->ctx->options->model);
    v->reload_wanted = false;
    atomic_store(&v->loaded, false);
    int rc = pthread_create(&v->loader, NULL, load, v);
    v->loading = rc == 0;
    if (rc) refuse_reload(v, strerror(rc));
}

static void end_reload(Supervisor *v) {
    pthread_join(v->loader, NULL);
    v->loading = false;
    if (v->made) {
        versions_add(&v->server->versions, v->made);
        log_line("new requests are served with fingerprint %s", v->made->fingerprint);
        metrics_count(&v->server->metrics, COUNT_RELOADS, 1);
        announce(v, "serving");
    } else {
        refuse_reload(v, v->err.msg);
    }
}

/* Takes reloads a step further; true while there is something left to do. */
static bool advance(Supervisor *v) {
    EngineStats stats;
    if (v->loading && atomic_load(&v->loaded)) end_reload(v);
    int old = versions_collect(&v->server->versions);
    versions_stats(&v->server->versions, &stats);
    if (v->reload_wanted && !v->loading && (old == 0 || stats.damaged)) start_reload(v);
    return v->loading || old > 0 || !v->announced;
}

/* ---- the end ---- */

static bool idle(Supervisor *v) {
    EngineStats stats;
    versions_stats(&v->server->versions, &stats);
    return stats.running == 0 && stats.queued == 0 && http_busy(v->http) == 0;
}

static void drain(Supervisor *v, double limit) {
    static const double FAREWELL = 2; /* seconds */
    double until = now_seconds() + limit;
    log_line("draining: up to %g s for what is running", limit);
    systemd_notify("STOPPING=1\nSTATUS=draining");
    atomic_store(&v->server->draining, true);
    versions_drain(&v->server->versions);
    while (now_seconds() < until && !idle(v)) {
        int signal_number = wait_signal(v->signals, TICK);
        if (signal_number && signal_number != SIGHUP) break;
        show_life(v);
    }
    atomic_store(&v->server->cut, true);
    http_wake_all(v->http);
    until = now_seconds() + FAREWELL;
    while (now_seconds() < until && http_busy(v->http) > 0) wait_signal(v->signals, TICK);
}

bool supervise(Server *s, Http *http, const ServingContext *ctx, const sigset_t *signals) {
    static Supervisor v; /* a reload that is not waited for writes there until the process is gone */
    v = (Supervisor){.server = s, .http = http, .ctx = ctx, .signals = signals, .watchdog = systemd_watchdog_seconds()};
    for (bool busy = true;;) {
        double pause = busy ? TICK : PAUSE;
        int signal_number = wait_signal(signals, v.watchdog ? fmin(pause, v.watchdog / 8) : pause);
        if (signal_number == SIGHUP) ask_for_reload(&v);
        if (signal_number && signal_number != SIGHUP) break;
        announce_health(&v);
        busy = advance(&v);
        show_life(&v);
    }
    announce_health(&v);
    if (v.announced)
        drain(&v, ctx->options->drain_seconds);
    else
        log_line("stopped before it was ready");
    if (!v.loading) return v.announced;
    log_line("stopped, and with it a reload");
    pthread_detach(v.loader);
    return false;
}
