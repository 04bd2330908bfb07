#include "server/access.h"

#include "base/log.h"
#include "server/gate/head.h"
#include "server/post.h"

static void put_trace(LogRecord *r, const HttpVisit *v) {
    char trace[TRACE_DIGITS + 1], parent[PARENT_DIGITS + 1];
    if (!v->trace_parent) return;
    snprintf(trace, sizeof trace, "%.*s", TRACE_DIGITS, v->trace_parent + TRACE_AT);
    snprintf(parent, sizeof parent, "%.*s", PARENT_DIGITS, v->trace_parent + PARENT_AT);
    log_text(r, "trace_id", trace);
    log_text(r, "parent_id", parent);
    log_text(r, "span_id", v->span_id);
}

static void put_answer(LogRecord *r, const PostReport *report) {
    const AnswerSummary *a = &report->answer;
    if (*report->tenant) log_text(r, "tenant", report->tenant);
    log_integer(r, "choices", a->choices);
    log_integer(r, "prompt_tokens", a->prompt_tokens);
    log_integer(r, "completion_tokens", a->completion_tokens);
    log_real(r, "queue_seconds", a->queue_seconds);
    log_real(r, "first_token_seconds", a->first_token_seconds);
    log_real(r, "longest_gap_seconds", a->longest_gap);
    log_real(r, "tokens_per_second", answer_tokens_per_second(a));
    if (a->seed >= 0) log_integer(r, "seed", a->seed);
    if (a->noise_seed >= 0) log_integer(r, "noise_seed", a->noise_seed);
    log_text(r, "system_fingerprint", a->fingerprint);
    log_text(r, "finish", answer_finish_name(a->finish));
}

void access_line(void *server, const HttpVisit *v) {
    LogRecord r;
    PostReport report;
    (void)server;
    log_begin(&r, "access");
    log_text(&r, "request_id", v->request_id);
    put_trace(&r, v);
    log_text(&r, "client", v->client);
    log_text(&r, "method", v->method);
    log_text(&r, "path", v->path);
    if (v->status) log_integer(&r, "status", v->status);
    log_integer(&r, "bytes", (int64_t)v->bytes);
    log_real(&r, "seconds", v->seconds);
    log_flag(&r, "stream", v->stream);
    log_flag(&r, "hung_up", v->hung_up);
    if (post_report(v->task, &report)) put_answer(&r, &report);
    log_end(&r);
}
