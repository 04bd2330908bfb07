#include "server/batch/batch.h"

#include "base/bar.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/options/options.h"
#include "server/batch/line.h"
#include "server/batch/line_reader.h"
#include "server/batch/results.h"
#include "server/post.h"
#include "server/routes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum PlaceState {
    PLACE_FREE,
    PLACE_RUNS,
    PLACE_PUT_BACK /* the queue was full */
} PlaceState;

/* A request in flight. */
typedef struct Place {
    struct BatchFile *batch;
    PlaceState state;
    bool alone;     /* nothing else ran when it began: a full queue is then its own */
    int64_t number; /* of its line */
    char *text;     /* the line */
    BatchLine line;
    HttpRequest request;
    HttpReply reply;
    atomic_bool woken;
} Place;

struct BatchFile {
    Server *server;
    LineReader *requests;
    int64_t n_lines; /* of the requests */
    Results results;
    int64_t n_taken;  /* results of a former run */
    int64_t n_former; /* of them those whose lines were not met yet */
    Ids ids;
    Place *places; /* [width] */
    int width, n_running, n_put_back;
    bool at_end; /* of the requests */
    int nudge_fd, signal_fd;
    atomic_bool nudged;
    double synced_at;
    /* ---- the bar ---- */
    bool terminal;
    int64_t n_done, n_skipped; /* lines; the latter were done before, or are blank */
    double started, shown;
};

/* ---- files ---- */

static int open_requests(BatchFile *b, const char *path, Err *err) {
    struct stat in, out;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_set(err, "%s: %s", path, strerror(errno));
    *b->requests = (LineReader){.fd = fd, .path = path};
    if (fstat(fd, &in) || fstat(b->results.fd, &out)) return err_set(err, "%s: %s", path, strerror(errno));
    if (!S_ISREG(in.st_mode)) return err_set(err, "%s is no regular file", path);
    if (in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return err_set(err, "--batch %s and --out %s are the same file", path, b->results.path);
    return 0;
}

static int open_files(BatchFile *b, const char *requests, const char *results, Err *err) {
    if (results_open(&b->results, results, err) || open_requests(b, requests, err)) return -1;
    b->n_lines = line_reader_count(b->requests->fd, requests, err);
    if (b->n_lines < 0 || results_take_over(&b->results, &b->ids, err)) return -1;
    b->n_taken = b->n_former = b->results.lines;
    return 0;
}

int batch_open(BatchFile **out, const char *requests, const char *results, Err *err) {
    struct stat st;
    if (stat(requests, &st)) return err_set(err, "%s: %s", requests, strerror(errno)); /* before any file is made */
    BatchFile *b = try_calloc(1, sizeof *b);
    if (!b) return err_set(err, "no memory for the batch");
    b->requests = try_calloc(1, sizeof *b->requests);
    b->nudge_fd = b->signal_fd = b->results.fd = -1;
    int rc = b->requests ? 0 : err_set(err, "no memory for the batch");
    if (b->requests) b->requests->fd = -1;
    if (rc || open_files(b, requests, results, err)) return batch_free(b), -1;
    *out = b;
    return 0;
}

void batch_free(BatchFile *b) {
    if (!b) return;
    const int fds[] = {b->nudge_fd, b->signal_fd, b->requests ? b->requests->fd : -1};
    for (size_t i = 0; i < COUNTOF(fds); i++)
        if (fds[i] >= 0) close(fds[i]);
    if (b->requests) line_reader_free(b->requests);
    free(b->requests);
    results_close(&b->results);
    ids_free(&b->ids);
    free(b->places);
    free(b);
}

/* ---- the bar ---- */

static void show(BatchFile *b, bool always) {
    static const double terminal_interval = 0.2, plain_interval = 10; /* seconds */
    enum { LINES, FAILED, SPEED, LEFT, TEXTS };
    double now = now_seconds(), rate = (double)(b->n_done - b->n_skipped) / (now - b->started + 1e-6);
    if (!always && now - b->shown < (b->terminal ? terminal_interval : plain_interval)) return;
    b->shown = now;
    char left[32];
    BarText texts[TEXTS] = {0};
    bar_duration(rate > 0 ? (double)(b->n_lines - b->n_done) / rate : 0, left);
    snprintf(texts[LINES], BAR_TEXT, "%" PRId64 "/%" PRId64 " lines", b->n_done, b->n_lines);
    if (b->results.failed) snprintf(texts[FAILED], BAR_TEXT, "  %" PRId64 " failed", b->results.failed);
    snprintf(texts[SPEED], BAR_TEXT, "  %.1f a second", rate);
    if (rate > 0) snprintf(texts[LEFT], BAR_TEXT, "  %s left", left);
    if (b->terminal)
        bar_draw(stdout, texts, TEXTS, b->n_lines ? (double)b->n_done / (double)b->n_lines : 1);
    else
        printf("%s%s%s%s\n", texts[LINES], texts[FAILED], texts[SPEED], texts[LEFT]);
    fflush(stdout);
}

/* ---- a request ---- */

static void wake(void *waker) {
    Place *p = waker;
    atomic_store(&p->woken, true);
    if (!atomic_exchange(&p->batch->nudged, true)) eventfd_write(p->batch->nudge_fd, 1);
}

static void clear_reply(Place *p) {
    if (p->reply.task.self) p->reply.task.close(p->reply.task.self);
    buffer_free(&p->reply.body);
    buffer_free(&p->reply.headers);
    p->reply = (HttpReply){0};
}

static void leave(Place *p) {
    clear_reply(p);
    batch_line_close(&p->line);
    free(p->text);
    p->text = NULL;
    p->state = PLACE_FREE;
}

/* What no line tells: nothing more can be answered. */
static int check_model(BatchFile *b, const HttpReply *reply, Err *err) {
    EngineStats stats;
    if (reply->status != 503) return 0;
    const char *status = server_status(b->server, &stats);
    if (!stats.damaged && !stats.broken) return 0;
    return err_set(err, "the checkpoint is %s; %" PRId64 " results are in %s, and the same command goes on", status,
                   b->results.lines, b->results.path);
}

static int put_answer(BatchFile *b, Place *p, Err *err) {
    HttpHandler h = routes_handler(b->server);
    HttpReply *r = &p->reply;
    if (r->body.failed) {
        buffer_free(&r->body);
        buffer_text(&r->body, h.no_memory);
        r->status = 503;
    }
    if (check_model(b, r, err)) return -1;
    b->n_done++;
    return results_put_answer(&b->results, p->number, p->line.custom_id, r, err);
}

/* Its reply is complete. */
static int end(BatchFile *b, Place *p, Err *err) {
    b->n_running--;
    if (p->reply.status == 429 && !p->alone) {
        clear_reply(p);
        p->state = PLACE_PUT_BACK;
        b->n_put_back++;
        return 0;
    }
    int rc = put_answer(b, p, err);
    leave(p);
    return rc;
}

static int begin(BatchFile *b, Place *p, Err *err) {
    const BatchLine *l = &p->line;
    p->request = (HttpRequest){
        .method = "POST", .path = l->url, .client = "", .body = l->body, .n_body = l->n_body, .wake = wake, .waker = p};
    HttpHandler h = routes_handler(b->server);
    p->state = PLACE_RUNS;
    p->alone = b->n_running++ == 0;
    if (l->n_body > (size_t)b->server->max_body)
        h.refuse(h.self, 413, NULL, &p->reply);
    else
        h.handle(h.self, &p->request, &p->reply);
    if (!p->reply.task.self) return end(b, p, err);
    wake(p); /* it may be complete already */
    return 0;
}

static int see_news(BatchFile *b, Err *err) {
    bool ended = false;
    for (Place *p = b->places; p < b->places + b->width; p++) {
        if (!atomic_exchange(&p->woken, false) || p->state != PLACE_RUNS) continue;
        if (!p->reply.task.poll(p->reply.task.self, &p->reply)) continue;
        if (end(b, p, err)) return -1;
        ended = true;
    }
    for (Place *p = b->places; p < b->places + b->width; p++) {
        if (p->state != PLACE_PUT_BACK || !(ended || b->n_running == 0)) continue;
        b->n_put_back--;
        if (begin(b, p, err)) return -1;
    }
    return 0;
}

/* ---- a line ---- */

static int skip(BatchFile *b) {
    b->n_done++;
    b->n_skipped++;
    return 0;
}

static int skip_former(BatchFile *b) {
    b->n_former--;
    return skip(b);
}

/* A line that cannot be asked, unless a former run has said so already. */
static int put_error(BatchFile *b, const BatchLine *l, ApiError *e, Err *err) {
    char digits[24];
    int64_t number = b->requests->number;
    snprintf(digits, sizeof digits, "%" PRId64, number);
    const Id *id = ids_find(&b->ids, ID_LINE, digits);
    if (!id) return err_set(err, "%s: no memory for the ids of its lines", b->requests->path);
    if (id->done) return skip_former(b);
    b->n_done++;
    return results_put_error(&b->results, number, l->custom_id, e, err);
}

/* What becomes of a line: 1, its result is there; 0, it is to be asked; -1 with e. */
static int judge(BatchFile *b, BatchLine *l, const char *text, ApiError *e) {
    const LineReader *from = b->requests;
    if (from->length > from->most)
        return api_fail(e, 400, "invalid_line", NULL, "its %zu bytes are more than --max-body allows", from->length);
    if (batch_line_read(l, text, from->text.n, e)) return -1;
    Id *id = ids_find(&b->ids, ID_CUSTOM, l->custom_id);
    if (!id) return api_no_memory(e);
    if (id->line)
        return api_fail(e, 400, "invalid_line", "custom_id", "custom_id \"%.100s\" is that of line %" PRId64 " too",
                        l->custom_id, id->line);
    id->line = from->number;
    if (id->done) return 1;
    return batch_line_check(l, e);
}

static bool is_blank(const Buffer *text, size_t length) {
    for (size_t i = 0; i < text->n; i++)
        if (!text->data[i] || !strchr(" \t\r", text->data[i])) return false;
    return text->n == length;
}

static int take_line(BatchFile *b, Place *p, Err *err) {
    LineReader *from = b->requests;
    BatchLine line = {0};
    ApiError e;
    if (is_blank(&from->text, from->length)) return skip(b);
    int known = judge(b, &line, from->text.data, &e);
    if (known == 0) {
        p->number = from->number;
        p->line = line;
        p->text = from->text.data;
        from->text = (Buffer){0};
        return begin(b, p, err);
    }
    int rc = known > 0 ? skip_former(b) : put_error(b, &line, &e, err);
    batch_line_close(&line);
    return rc;
}

static bool may_feed(const BatchFile *b) { return !b->at_end && b->n_put_back == 0 && b->n_running < b->width; }

/* So many lines at once that signals and what has ended do not wait for a long file that is done already. */
static int feed(BatchFile *b, Err *err) {
    enum { AT_ONCE = 64 };
    for (int i = 0; i < AT_ONCE && may_feed(b); i++) {
        Place *p = b->places;
        while (p->state != PLACE_FREE) p++;
        int more = line_reader_next(b->requests, err);
        b->at_end = more == 0;
        if (more < 0 || (more > 0 && take_line(b, p, err))) return -1;
    }
    return 0;
}

/* ---- all of them ---- */

/* The number of a signal that came, else 0. */
static int wait_for_news(BatchFile *b) {
    enum { TICK_MS = 200 };
    eventfd_t count;
    struct signalfd_siginfo got;
    struct pollfd fds[] = {{.fd = b->nudge_fd, .events = POLLIN}, {.fd = b->signal_fd, .events = POLLIN}};
    poll(fds, COUNTOF(fds), may_feed(b) ? 0 : TICK_MS);
    if (fds[0].revents) eventfd_read(b->nudge_fd, &count);
    atomic_store(&b->nudged, false);
    bool signalled = fds[1].revents && read(b->signal_fd, &got, sizeof got) == sizeof got;
    return signalled ? (int)got.ssi_signo : 0;
}

static int sync_now_and_then(BatchFile *b, Err *err) {
    static const double INTERVAL = 1; /* seconds */
    if (now_seconds() < b->synced_at + INTERVAL) return 0;
    b->synced_at = now_seconds();
    return results_sync(&b->results, err);
}

static int answer_all(BatchFile *b, int *signal_number, Err *err) {
    *signal_number = 0;
    while (!*signal_number && !(b->at_end && b->n_running + b->n_put_back == 0)) {
        if (feed(b, err)) return -1;
        *signal_number = wait_for_news(b);
        if (see_news(b, err) || sync_now_and_then(b, err)) return -1;
        show(b, false);
    }
    return 0;
}

/* A chat's fingerprint is the model's, and the template's behind it. */
static int check_former_model(const BatchFile *b, Err *err) {
    const Results *r = &b->results;
    Serving *model = versions_pin(&b->server->versions);
    int rc = 0;
    if (*r->fingerprint && strncmp(r->fingerprint, model->fingerprint, strlen(model->fingerprint)))
        rc = err_set(err, "%s: line %" PRId64 " was answered by %s, and this model is %s: another --out keeps both",
                     r->path, r->answered, r->fingerprint, model->fingerprint);
    versions_unpin(&b->server->versions, model);
    return rc;
}

static int prepare(BatchFile *b, const sigset_t *signals, Err *err) {
    enum { LINE_BESIDE_BODY = 64 << 10 };
    b->requests->most = (size_t)b->server->max_body + LINE_BESIDE_BODY;
    b->places = try_calloc((size_t)b->width, sizeof *b->places);
    b->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    b->signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (!b->places || b->nudge_fd < 0 || b->signal_fd < 0) return err_set(err, "the batch: %s", strerror(errno));
    for (int i = 0; i < b->width; i++) b->places[i].batch = b;
    b->terminal = isatty(STDOUT_FILENO) == 1;
    b->started = b->shown = b->synced_at = now_seconds();
    return check_former_model(b, err);
}

static void tell(const BatchFile *b, int signal_number) {
    const Results *r = &b->results;
    if (b->terminal) putchar('\n');
    if (signal_number)
        printf("stopped by signal %d: %" PRId64 " of %" PRId64 " lines are done, and the same command goes on\n",
               signal_number, b->n_done, b->n_lines);
    else if (b->n_taken)
        printf("%s: %" PRId64 " results, %" PRId64 " of them errors, %" PRId64 " of a former run\n", r->path, r->lines,
               r->failed, b->n_taken);
    else
        printf("%s: %" PRId64 " results, %" PRId64 " of them errors\n", r->path, r->lines, r->failed);
    if (b->at_end && b->n_former)
        log_warning("%" PRId64 " results in %s are of no line of %s", b->n_former, r->path, b->requests->path);
    fflush(stdout);
}

int batch_run(BatchFile *b, Server *s, int width, const sigset_t *signals, int *status, Err *err) {
    int signal_number = 0, rc;
    b->server = s;
    b->width = width;
    rc = prepare(b, signals, err);
    if (rc == 0) rc = answer_all(b, &signal_number, err);
    for (int i = 0; b->places && i < width; i++) leave(&b->places[i]);
    if (rc == 0) rc = results_sync(&b->results, err);
    if (rc) return -1;
    show(b, true);
    tell(b, signal_number);
    *status = signal_number ? 128 + signal_number : b->results.failed ? BATCH_SOME_FAILED : EXIT_DONE;
    return 0;
}
