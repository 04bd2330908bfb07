#include "base/json_write.h"
#include "base/err.h"
#include "server/api/answer.h"
#include "server/api/completions/request.h"
#include "server/api/responses/responses.h"

#include <string.h>

/* What has an id of its own has that of the response, with another beginning. */
static void put_item_id(Buffer *b, const char *key, const ResponseHead *head) {
    char id[ANSWER_ID + 8];
    snprintf(id, sizeof id, "msg%s", head->id + strlen(response_responses.id));
    json_put_text(b, key, id);
}

/* ---- the parts, as far as the text is said ---- */

static void put_text(Buffer *b, const char *key, const Choice *c, bool said) {
    json_put_bytes(b, key, said && c->text.settled ? c->text.text.data : "", said ? c->text.settled : 0);
}

static void put_part(Buffer *b, const char *key, const Choice *c, bool said) {
    json_open(b, key, '{');
    json_put_text(b, "type", "output_text");
    put_text(b, "text", c, said);
    json_put_raw(b, "annotations", "[]", 2);
    json_put_raw(b, "logprobs", "[]", 2);
    json_close(b, '}');
}

static const char *status_of(const Choice *c, bool said) {
    return !said ? "in_progress" : c->finish == FINISH_STOP ? "completed" : "incomplete";
}

static void put_item(Buffer *b, const char *key, const ResponseHead *head, const Choice *c, bool said) {
    json_open(b, key, '{');
    put_item_id(b, "id", head);
    json_put_text(b, "type", "message");
    json_put_text(b, "status", status_of(c, said));
    json_put_text(b, "role", "assistant");
    json_open(b, "content", '[');
    if (said) put_part(b, NULL, c, true);
    json_close(b, ']');
    json_close(b, '}');
}

static void put_usage(Buffer *b, const Choice *c) {
    json_open(b, "usage", '{');
    json_put_int(b, "input_tokens", c->job->n_prompt);
    json_open(b, "input_tokens_details", '{');
    json_put_int(b, "cached_tokens", job_progress(c->job).cached_tokens);
    json_close(b, '}');
    json_put_int(b, "output_tokens", c->n_read);
    json_put_raw(b, "output_tokens_details", "{\"reasoning_tokens\":0}", 22);
    json_put_int(b, "total_tokens", c->job->n_prompt + c->n_read);
    json_close(b, '}');
}

static void put_response(Buffer *b, const char *key, const ResponseHead *head, const Choice *c, bool said) {
    const CompletionRequest *r = head->request;
    bool cut = said && c->finish != FINISH_STOP;
    json_open(b, key, '{');
    json_put_text(b, "id", head->id);
    json_put_text(b, "object", "response");
    json_put_int(b, "created_at", head->created);
    json_put_text(b, "status", status_of(c, said));
    json_put_null(b, "error");
    if (cut)
        json_put_raw(b, "incomplete_details", "{\"reason\":\"max_output_tokens\"}", 30);
    else
        json_put_null(b, "incomplete_details");
    if (cut && c->finish == FINISH_DEADLINE) json_put_bool(b, "deadline", true);
    json_put_text(b, "model", head->api->models.name);
    json_open(b, "output", '[');
    if (said) put_item(b, NULL, head, c, true);
    json_close(b, ']');
    json_put_int(b, "max_output_tokens", r->max_tokens);
    json_put_null(b, "previous_response_id");
    json_put_float(b, "temperature", r->sampling.temperature);
    json_put_float(b, "top_p", r->sampling.top_p);
    json_put_bool(b, "store", false);
    json_put_bool(b, "parallel_tool_calls", false);
    json_put_text(b, "tool_choice", "none");
    json_put_raw(b, "tools", "[]", 2);
    json_put_text(b, "truncation", "disabled");
    json_put_raw(b, "metadata", "{}", 2);
    if (said)
        put_usage(b, c);
    else
        json_put_null(b, "usage");
    json_put_uint(b, "seed", c->job->sampling.seed);
    answer_put_noise(b, head->api->config, &c->job->noise);
    json_put_text(b, "system_fingerprint", r->fingerprint);
    json_close(b, '}');
}

static void print_choice(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part) {
    (void)index, (void)part;
    put_response(b, NULL, head, c, true);
}

/* ---- events ---- */

static void open_event(Buffer *b, const char *type, int number) {
    buffer_print(b, "event: %s\ndata: ", type);
    json_open(b, NULL, '{');
    json_put_text(b, "type", type);
    json_put_int(b, "sequence_number", number);
}

static void close_event(Buffer *b) {
    json_close(b, '}');
    buffer_text(b, "\n\n");
}

static void print_response(Buffer *b, const char *type, int number, const ResponseHead *head, const Choice *c,
                           bool said) {
    open_event(b, type, number);
    put_response(b, "response", head, c, said);
    close_event(b);
}

static void print_item(Buffer *b, const char *type, int number, const ResponseHead *head, const Choice *c, bool said) {
    open_event(b, type, number);
    json_put_int(b, "output_index", 0);
    put_item(b, "item", head, c, said);
    close_event(b);
}

/* Left open: of the text. */
static void open_text_event(Buffer *b, const char *type, int number, const ResponseHead *head) {
    open_event(b, type, number);
    put_item_id(b, "item_id", head);
    json_put_int(b, "output_index", 0);
    json_put_int(b, "content_index", 0);
}

static void print_part(Buffer *b, const char *type, int number, const ResponseHead *head, const Choice *c, bool said) {
    open_text_event(b, type, number, head);
    put_part(b, "part", c, said);
    close_event(b);
}

static void print_begin(Buffer *b, const ResponseHead *head, const Choice *c) {
    print_response(b, "response.created", 0, head, c, false);
    print_response(b, "response.in_progress", 1, head, c, false);
    print_item(b, "response.output_item.added", 2, head, c, false);
    print_part(b, "response.content_part.added", 3, head, c, false);
}

static void print_text(Buffer *b, const ResponseHead *head, const Choice *c, int number) {
    open_text_event(b, "response.output_text.delta", number, head);
    response_choice_text(b, "delta", c);
    json_put_raw(b, "logprobs", "[]", 2);
    close_event(b);
}

static void print_end(Buffer *b, const ResponseHead *head, const Choice *c, int number) {
    open_text_event(b, "response.output_text.done", number, head);
    put_text(b, "text", c, true);
    json_put_raw(b, "logprobs", "[]", 2);
    close_event(b);
    print_part(b, "response.content_part.done", number + 1, head, c, true);
    print_item(b, "response.output_item.done", number + 2, head, c, true);
    print_response(b, c->finish == FINISH_STOP ? "response.completed" : "response.incomplete", number + 3, head, c,
                   true);
}

static void print_events(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part) {
    enum { FIRST = 4 }; /* behind the beginning's */
    (void)index;
    if (part == PART_BEGIN) print_begin(b, head, c);
    if (part == PART_TEXT) print_text(b, head, c, FIRST + c->texts_sent);
    if (part == PART_END) print_end(b, head, c, FIRST + c->texts_sent + choice_has_text(c));
}

const ResponseForm response_responses = {
    .id = "resp", .begins = true, .ends = true, .choice = print_choice, .events = print_events, .names_events = true};
