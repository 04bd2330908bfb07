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

void access_line(void *server, const HttpVisit *v) {
    LogRecord r;
    AnswerSummary summary;
    (void)server;
    log_begin(&r, "access");
    log_text(&r, "request_id", v->request_id);
    put_trace(&r, v);
    log_text(&r, "client", v->client);
    log_text(&r, "method", v->method);
    log_text(&r, "path", v->path);
    if (v->status) log_integer(&r, "status", v->status);
    log_integer(&r, "bytes", (int64_t)v->bytes);
    log_seconds(&r, "seconds", v->seconds);
    log_flag(&r, "stream", v->stream);
    log_flag(&r, "hung_up", v->hung_up);
    if (post_summary(v->task, &summary)) {
        log_integer(&r, "prompt_tokens", summary.prompt_tokens);
        log_integer(&r, "completion_tokens", summary.completion_tokens);
        log_seconds(&r, "queue_seconds", summary.queue_seconds);
        log_seconds(&r, "first_token_seconds", summary.first_token_seconds);
        log_text(&r, "finish", answer_finish_name(summary.finish));
    }
    log_end(&r);
}
