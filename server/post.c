#include "server/post.h"

#include "base/clock.h"
#include "base/fnv1a.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Bytes: less than a millisecond of work, and less than the slice that the scheduler gives a thread. */
enum { SMALL_BODY = 4096, BRIEF_BODY = 8 * SMALL_BODY };

typedef struct Post {
    Work work; /* the first member */
    Server *server;
    struct Post *older, *newer;
    const HttpRequest *request; /* lives as long as the task, but for its body */
    Serving *serving;           /* pinned */
    const Route *route;
    uint64_t tenant;
    double arrived; /* now_seconds() */
    const char *body;
    size_t n_body;
    char *copy;     /* of the body, while it waits for a worker; counted in server->n_waiting */
    HttpReply made; /* by work.run; status 0: see answer */
    void *answer;   /* of route->engine; belongs to the worker until work.done */
    int64_t taken;  /* tokens that the answer may use at most, of its key's */
} Post;

void reply_error(HttpReply *reply, const ApiError *e) {
    buffer_free(&reply->body); /* and with it that something is missing there */
    reply->status = e->status;
    reply->retry_after = e->retry_after;
    api_error_print(&reply->body, e);
}

/* ---- work ---- */

static void take_tokens(Post *p) {
    AnswerSummary s = p->route->engine->summary(p->answer);
    p->taken = (int64_t)s.prompt_tokens + s.most_completion_tokens;
    quota_tokens(&p->server->quota, p->tenant, now_seconds(), p->taken);
}

static void give_back_tokens(Post *p) {
    AnswerSummary s = p->route->engine->summary(p->answer);
    quota_tokens(&p->server->quota, p->tenant, now_seconds(),
                 (int64_t)s.prompt_tokens + s.completion_tokens - p->taken);
}

static int start_answer(Post *p, Buffer *ignored, ApiError *e) {
    const Work *w = &p->work;
    const Requester requester = {
        .tenant = p->tenant, .client = w->client, .arrived = p->arrived, .wake = w->wake, .wake_arg = w->wake_arg};
    const Route *r = p->route;
    if (p->copy && quota_still(&p->server->quota, p->tenant, now_seconds(), e)) return -1;
    p->answer = r->engine->start(r->engine, &p->serving->answer, r->body, p->body, p->n_body, &requester, ignored, e);
    if (p->answer) take_tokens(p);
    return p->answer ? 0 : -1;
}

static void drop_copy(Post *p) {
    if (p->copy) atomic_fetch_sub(&p->server->n_waiting, p->n_body);
    free(p->copy);
    p->copy = NULL;
}

static bool read_body(Work *w) {
    Post *p = (Post *)w;
    ApiError e;
    Buffer ignored = {0};
    bool bad;
    memory_ran_out(); /* forget what was before */
    if (p->route->convert) {
        p->made.status = 200;
        bad = p->route->convert(&p->serving->api, p->body, p->n_body, &p->made.body, &ignored, &e) != 0;
    } else {
        bad = start_answer(p, &ignored, &e) != 0;
    }
    if (ignored.n) buffer_print(&p->made.headers, "x-noised-ignored: %.*s\r\n", (int)ignored.n, ignored.data);
    buffer_free(&ignored);
    if (bad && memory_ran_out()) api_no_memory(&e); /* the code that noticed may have called it something else */
    if (bad) reply_error(&p->made, &e);
    quota_headers(&p->server->quota, p->tenant, now_seconds(), &p->made.headers);
    drop_copy(p);
    return false;
}

static bool streams(const Post *p) {
    const AnswerKind *kind = p->route->engine;
    return kind->streams && kind->streams(p->answer);
}

static bool poll_answer(Post *p, HttpReply *reply) {
    bool done = p->route->engine->poll(p->answer, &reply->body, &reply->status);
    if (done && reply->status == 429) reply->retry_after = engine_wait(p->serving->engine);
    return done;
}

/* No tokens are pushed any more: what is not there yet is the next piece. */
static bool write_answer(Work *w) {
    Post *p = (Post *)w;
    return !poll_answer(p, &p->made);
}

static void free_post(Work *w) {
    Post *p = (Post *)w;
    if (p->answer) {
        give_back_tokens(p);
        p->route->engine->free(p->answer);
    }
    versions_unpin(&p->server->versions, p->serving);
    buffer_free(&p->made.body);
    buffer_free(&p->made.headers);
    drop_copy(p);
    free(p);
}

/* ---- the task ---- */

static void hand_headers(Post *p, HttpReply *reply) {
    buffer_append(&reply->headers, p->made.headers.data, p->made.headers.n);
    buffer_free(&p->made.headers);
}

static void hand_over(Post *p, HttpReply *reply) {
    hand_headers(p, reply);
    buffer_free(&reply->body);
    reply->body = p->made.body;
    reply->status = p->made.status;
    reply->retry_after = p->made.retry_after;
    p->made = (HttpReply){0};
}

static bool poll_post(void *self, HttpReply *reply) {
    Post *p = self;
    if (!atomic_load(&p->work.done)) {
        ApiError e;
        if (!atomic_load(&p->server->cut)) return false;
        answer_shutting_down(&e);
        reply_error(reply, &e);
        return true;
    }
    if (p->made.status) {
        hand_over(p, reply);
        return true;
    }
    hand_headers(p, reply);
    if (streams(p) && !reply->stream) return reply->stream = true;
    const AnswerKind *kind = p->route->engine;
    bool done = !kind->is_long(p->answer) && poll_answer(p, reply);
    if (done || !kind->is_long(p->answer)) return done;
    p->work.run = write_answer;
    p->work.brief = false;
    workers_submit(p->server->workers, &p->work, true);
    return false;
}

static void list(Post *p) {
    Server *s = p->server;
    p->older = s->newest_post;
    *(p->older ? &p->older->newer : &s->oldest_post) = p;
    s->newest_post = p;
}

static void unlist(Post *p) {
    Server *s = p->server;
    *(p->older ? &p->older->newer : &s->oldest_post) = p->newer;
    *(p->newer ? &p->newer->older : &s->newest_post) = p->older;
}

static void close_post(void *self) {
    Post *p = self;
    unlist(p);
    workers_release(p->server->workers, &p->work);
}

static bool report_on(const Post *p, PostReport *report) {
    if (!atomic_load(&p->work.done) || !p->answer) return false;
    *report = (PostReport){.answer = p->route->engine->summary(p->answer),
                           .request_id = p->request->request_id,
                           .path = p->route->path,
                           .stream = streams(p)};
    if (p->tenant) auth_name(p->server->auth, (int)p->tenant, report->tenant);
    return true;
}

bool post_report(const HttpTask *task, PostReport *report) {
    return task->self && task->close == close_post && report_on(task->self, report);
}

void posts_report(const Server *s, void (*take)(void *arg, const PostReport *report), void *arg) {
    PostReport report;
    for (const Post *p = s->oldest_post; p; p = p->newer)
        if (report_on(p, &report)) take(arg, &report);
}

/* ---- from the route ---- */

/* NULL when memory runs out. */
static Post *new_post(Server *s, const Route *route, const HttpRequest *request, int key) {
    Post *p = try_calloc(1, sizeof *p);
    if (!p) return NULL;
    *p = (Post){.server = s,
                .serving = versions_pin(&s->versions),
                .route = route,
                .request = request,
                .arrived = now_seconds(),
                .body = request->body,
                .n_body = request->n_body};
    p->work.run = read_body;
    p->work.brief = request->n_body <= BRIEF_BODY;
    p->work.free = free_post;
    p->work.wake = request->wake;
    p->work.wake_arg = request->waker;
    p->tenant = (uint64_t)key;
    /* Who takes turns with whom: keys, and where there are none, addresses. */
    p->work.client = p->tenant ? p->tenant : fnv1a(request->client);
    atomic_init(&p->work.done, true);
    atomic_init(&p->work.owners, 1);
    return p;
}

/* -1 when its key has too many waiting, or there is no memory. */
static int submit(Post *p, ApiError *e) {
    Server *s = p->server;
    size_t before = atomic_load(&s->n_waiting);
    if (before && before + p->n_body > (size_t)s->max_bodies) {
        api_fail(e, 503, NULL, NULL, "the bodies that wait to be read take all the memory there is for them");
        e->retry_after = 1;
        return -1;
    }
    p->copy = try_malloc(p->n_body);
    if (!p->copy) return api_no_memory(e);
    atomic_fetch_add(&s->n_waiting, p->n_body);
    p->body = memcpy(p->copy, p->body, p->n_body);
    if (workers_submit(p->server->workers, &p->work, false)) return 0;
    api_fail(e, 429, "queue_full", NULL, "too many of this key's requests wait to be read");
    e->retry_after = 1;
    return -1;
}

/* Pictures are small where they are deflated only, so they are decoded by workers whatever their length. */
static bool is_small(const Post *p) {
    bool picture = p->route->engine && p->serving->api.config->input.kind == INPUT_PATCHES;
    return p->n_body <= SMALL_BODY && !picture;
}

static void refuse(const Post *p, HttpReply *reply, const ApiError *e) {
    reply_error(reply, e);
    quota_headers(&p->server->quota, p->tenant, now_seconds(), &reply->headers);
}

/* p NULL: no memory for it. */
static void begin(Post *p, HttpReply *reply) {
    ApiError e;
    if (!p) {
        api_no_memory(&e);
        reply_error(reply, &e);
        return;
    }
    if (quota_request(&p->server->quota, p->tenant, now_seconds(), &e)) {
        refuse(p, reply, &e);
    } else if (is_small(p)) {
        read_body(&p->work);
        reply->stream = p->answer && streams(p);
        hand_headers(p, reply);
        if (p->made.status) hand_over(p, reply);
    } else if (submit(p, &e)) {
        refuse(p, reply, &e);
    }
    if (reply->status) {
        free_post(&p->work);
        return;
    }
    list(p);
    reply->task = (HttpTask){.self = p, .poll = poll_post, .close = close_post};
}

void post(Server *s, const Route *route, const HttpRequest *request, HttpReply *reply) {
    ApiError e;
    if (route->engine && atomic_load(&s->draining)) {
        answer_shutting_down(&e);
        reply_error(reply, &e);
        return;
    }
    /* The head was let in; by now the keys may be others. */
    int key = auth_check(s->auth, request->authorization, request->api_key);
    if (key < 0) {
        api_bad_key(&e);
        reply_error(reply, &e);
        return;
    }
    begin(new_post(s, route, request, key), reply);
}
